//! Disks under the spill log: power that is cut, and a disk that is gone.

use crate::support::chance::{Random, quick_or_torture, say};
use crate::support::logdisk::{LogDisk, Told, look_at};
use crate::support::{Scratch, wait_until};
use crate::{Got, LIMIT, by, frame, push_all, receiver, sender, status, take_frames};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use thalweg_client::frames::{ChannelWishes, FramePolicy, HeldLevel, SenderWishes};
use thalweg_mover::failure::FailureKind;

const BYTES: usize = 20_000;

/// Of a channel that is recorded; a frame counts when it is synced.
fn durable() -> SenderWishes {
    let channel = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    SenderWishes { channel, level: HeldLevel::Durable, ..SenderWishes::default() }
}

/// As `c7_whatever_a_power_cut_leaves_of_the_writes_since_a_flush_no_name_is_wrong`: everything before a flush, and of
/// what came after it a prefix or any part.
#[test]
fn whatever_a_power_cut_leaves_of_a_spill_log_has_the_frames_that_were_told_to_be_durable() {
    let row = "frames power";
    let mut random = Random::new(row);
    let scratch = Scratch::new();
    let Some(disk) = LogDisk::new(row, scratch.root(), "disk", "ext4", 64) else { return };
    let mount = disk.path.clone();
    let export = mount.join("export");
    std::fs::create_dir(&export).unwrap();
    // How many frames were told to be durable when the disk had been told so much.
    let mut promised = Vec::new();
    {
        let daemon = scratch.daemon(&[("data", &export)]);
        let maker = sender(&scratch, &daemon.place("data", "x"), "m", durable());
        for frames in (3..=60).step_by(3) {
            push_all(&maker, "m", frames - 3, frames, BYTES);
            assert!(wait_until(LIMIT, || maker.figures().waiting == 0), "they become durable");
            promised.push((disk.told_bytes(), frames));
        }
        drop(maker);
        daemon.kill();
    }
    let (first, told) = disk.told();
    let durable = scratch.path("durable.img");
    std::fs::rename(first, &durable).unwrap();
    let image = File::options().read(true).write(true).open(&durable).unwrap();
    let mut ends: Vec<(usize, bool)> = (0..quick_or_torture(8, 100))
        .map(|at| (random.below(told.len() as u64 + 1) as usize, at % 2 == 1))
        .collect();
    ends.push((told.len(), false));
    ends.sort_unstable();
    let (mut written, mut looked_at) = (0, 0);
    for (end, is_part) in ends {
        let flush = told[..end].iter().rposition(|told| matches!(told, Told::Flush)).map_or(0, |at| at + 1);
        told[written..flush.max(written)].iter().for_each(|told| told.write(&image));
        written = written.max(flush);
        let state = scratch.path("state.img");
        let copied = Command::new("cp").arg("--sparse=always").args([&durable, &state]).status().unwrap();
        assert!(copied.success());
        let file = File::options().write(true).open(&state).unwrap();
        for told in &told[written..end] {
            if !is_part || random.below(2) == 0 {
                told.write(&file);
            }
        }
        drop(file);
        let bytes: u64 = told[..end].iter().map(Told::log_bytes).sum();
        let frames = promised.iter().rev().find(|(at, _)| *at <= bytes).map_or(0, |(_, frames)| *frames);
        if frames > 0 {
            looked_at += 1;
            let when = format!("after {end} of {} records, part: {is_part}", told.len());
            assert_has_frames(&scratch, &state, &mount, frames, &when);
        }
        std::fs::remove_file(&state).unwrap();
    }
    say(&format!("{row}: {looked_at} states of {} writes and flushes", told.len()));
    assert!(looked_at > 0);
}

#[test]
fn what_a_killed_hub_had_written_and_not_synced_is_durable_before_the_next_hub_says_so() {
    let row = "frames kill and power";
    let scratch = Scratch::new();
    let Some(disk) = LogDisk::new(row, scratch.root(), "disk", "ext4", 64) else { return };
    let mount = disk.path.clone();
    let export = mount.join("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    // Recorded, and nobody waits for a sync.
    let wishes = SenderWishes { level: HeldLevel::Memory, ..durable() };
    let maker = sender(&scratch, &daemon.place("data", "x"), "m", wishes);
    push_all(&maker, "m", 0, 20, BYTES);
    let log = export.join("x.frames/0000000000000000.spill");
    let is_written = || std::fs::metadata(&log).is_ok_and(|log| log.len() >= 20 * BYTES as u64);
    assert!(wait_until(LIMIT, is_written), "the log has all of it");
    daemon.kill();
    drop(maker);
    let daemon = scratch.daemon(&[("data", &export)]);
    let again = sender(&scratch, &daemon.place("data", "x"), "m", durable());
    // It pushes nothing: what it finishes with is what the hub says to have, durable.
    let frames = again.finish(Some(LIMIT)).expect("an end").frames;
    let promised_at = disk.told_bytes();
    assert_eq!(frames, 20);
    daemon.kill();
    let (first, told) = disk.told();
    let image = File::options().read(true).write(true).open(&first).unwrap();
    let mut bytes = 0;
    let is_before = |told: &&Told| {
        bytes += told.log_bytes();
        bytes <= promised_at
    };
    let before = told.iter().take_while(is_before).count();
    let flushed = told[..before].iter().rposition(|told| matches!(told, Told::Flush)).map_or(0, |at| at + 1);
    told[..flushed].iter().for_each(|told| told.write(&image));
    drop(image);
    assert_has_frames(&scratch, &first, &mount, frames, "at the flush before it was told");
}

/// A hub on this state of the disk has so many frames of `m`, told to be durable, in the log of its channel.
fn assert_has_frames(scratch: &Scratch, state: &Path, mount: &Path, frames: u64, when: &str) {
    look_at(state, mount, "ext4", |mount| {
        let daemon = scratch.daemon(&[("data", &mount.join("export"))]);
        let taker = receiver(scratch, &daemon.place("data", "x"), by(FramePolicy::Block));
        let mut got = Got::default();
        let has_come = wait_until(LIMIT, || {
            while let Some(delivery) = taker.next(Some(Duration::from_millis(50))).unwrap() {
                got.take(delivery, BYTES);
            }
            got.count("m") >= frames
        });
        assert!(has_come, "{when}: {} of {frames} frames", got.count("m"));
        assert!(got.lost.is_empty(), "{when}: {:?}", got.lost);
        drop(taker);
        daemon.kill();
    });
}

#[test]
fn a_disk_that_is_gone_under_a_hub_holds_its_producer_up_is_told_and_stops_nobody_else() {
    let row = "frames gone";
    let scratch = Scratch::new();
    let Some(mut disk) = LogDisk::new(row, scratch.root(), "disk", "ext4", 64) else { return };
    let (gone, other) = (disk.path.join("export"), scratch.path("other"));
    std::fs::create_dir(&gone).unwrap();
    std::fs::create_dir(&other).unwrap();
    let mut daemon = scratch.daemon(&[("data", &gone), ("other", &other)]);
    let place = daemon.place("data", "x");
    let maker = sender(&scratch, &place, "m", durable());
    push_all(&maker, "m", 0, 10, BYTES);
    assert!(wait_until(LIMIT, || maker.figures().waiting == 0));
    disk.take_away();
    push_all(&maker, "m", 10, 20, BYTES);
    let is_told = || !status(&scratch, &place)["spill_trouble"].is_null();
    assert!(wait_until(LIMIT, is_told), "the disk is gone, and nobody says so");
    assert!(maker.figures().waiting > 0, "what no disk has was told to be durable");
    // Another channel of the same hub, on a disk that is there.
    let place = daemon.place("other", "x");
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let second = sender(&scratch, &place, "n", durable());
    push_all(&second, "n", 0, 10, BYTES);
    second.finish(Some(LIMIT)).expect("an end");
    assert_eq!(Got::default().to_the_end(&taker, BYTES).count("n"), 10);
    assert!(daemon.is_alive(), "{}", scratch.server_log());
    drop(maker);
    daemon.kill();
}

#[test]
fn a_disk_that_is_gone_under_a_recorded_channel_ends_a_producer_that_waits_for_no_sync() {
    let row = "frames gone and not durable";
    let scratch = Scratch::new();
    let Some(mut disk) = LogDisk::new(row, scratch.root(), "disk", "ext4", 64) else { return };
    let export = disk.path.join("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let place = daemon.place("data", "x");
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    // The hub has a frame when it has it in memory: what is written is nobody's concern until memory is full.
    let wishes = SenderWishes { level: HeldLevel::Memory, ..durable() };
    let maker = sender(&scratch, &place, "m", wishes);
    push_all(&maker, "m", 0, 10, BYTES);
    // A file that stands there takes more, as far as the page cache goes.
    let log = export.join("x.frames/0000000000000000.spill");
    let is_written = || std::fs::metadata(&log).is_ok_and(|log| log.len() >= 10 * BYTES as u64);
    assert!(wait_until(LIMIT, is_written), "the log has all of it");
    disk.take_away();
    let mut pushed = 10;
    let mut failed = None;
    assert!(
        wait_until(LIMIT, || {
            match maker.push(frame("m", pushed, BYTES), Some(Duration::from_millis(50))) {
                Ok(_) => pushed += 1,
                Err(failure) if failure.kind == FailureKind::Busy => {}
                Err(failure) => failed = Some(failure),
            }
            failed.is_some()
        }),
        "it is not told that nothing is recorded any more: {}",
        scratch.server_log()
    );
    let failed = failed.unwrap().to_string();
    assert!(failed.starts_with("sync the spill log failed on `x.frames/"), "{failed}");
    // What the hub had its consumer gets, and then that its producer is gone.
    let mut got = 0;
    let report = take_frames(&taker, |frame| {
        assert_eq!(frame.sequence, got);
        got += 1;
    });
    assert_eq!(report.producers_gone, ["m"]);
    assert!((10..=pushed).contains(&got), "{got} of {pushed}");
    drop(maker);
    daemon.kill();
}
