//! For `lag`: a consumer that is slower than its producer. What does it miss, and is each frame that it misses named?
//!
//! 1. Frames of 1 MB are pushed at their rate; each has its number in its bytes.
//! 2. `thalweg frames pull PLACE -` hands them to us, who take one each [`TAKES_EVERY`] and let the rest be dropped by
//!    policy; or who stand still behind the first one, while the hub writes what its memory does not hold, and then
//!    take all.
//! 3. Each number that was given is held against what was taken and what was named as lost: it is in exactly one of
//!    them, in order, with the bytes that were given. What is not so is counted in the sample (`not_accounted`), which
//!    fails by it.

use crate::bench::record::{NOT_ACCOUNTED, Sample};
use crate::bench::workspace::Said;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a consumer is slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Slow {
    /// It takes one frame each [`TAKES_EVERY`], and drops by this policy.
    Drops(&'static str),
    /// It stands still for so long, while so many frames are given, and the hub spills.
    Stalls { stall: Duration, frames: u64 },
}

/// A tenth of the frames that are given.
pub(super) const TAKES_EVERY: Duration = Duration::from_millis(10);
/// What the hub holds in memory of a channel: less than a second of frames.
pub(super) const MEMORY_BYTES: u64 = 64 << 20;
/// What may be under way to the consumer: more would be old when it is taken.
pub(super) const WINDOW_BYTES: u64 = 4 << 20;
/// How often one that stands still looks whether all of it shall end.
const LOOK: Duration = Duration::from_millis(20);

impl Slow {
    /// As `thalweg frames pull --policy` has it.
    pub fn policy(self) -> &'static str {
        match self {
            Slow::Drops(policy) => policy,
            Slow::Stalls { .. } => "spill",
        }
    }

    pub fn series(self) -> String {
        match self {
            Slow::Drops(policy) => format!("frames, a slow consumer, {policy}"),
            Slow::Stalls { .. } => "frames, a consumer that stands still, spill".to_owned(),
        }
    }
}

/// Fills a frame with what the one of this number has.
pub(super) fn fill(number: u64, frame: &mut [u8]) {
    // Neither of two neighbours has the other's bytes.
    frame.fill((number % 251) as u8);
    let head = frame.len().min(8);
    frame[..head].copy_from_slice(&number.to_le_bytes()[..head]);
}

/// The number of a frame, if it has what was given under it.
fn number_of(frame: &[u8]) -> Option<u64> {
    let (head, rest) = frame.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*head);
    let wanted = (number % 251) as u8;
    rest.iter().all(|byte| *byte == wanted).then_some(number)
}

/// Gives so many frames.
pub(super) fn give(mut pipe: impl Write, frames: u64, frame_bytes: usize) -> io::Result<()> {
    let mut frame = vec![0; frame_bytes];
    for number in 0..frames {
        fill(number, &mut frame);
        pipe.write_all(&frame)?;
    }
    Ok(())
}

/// What a consumer took.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Numbers in the order in which they came; `None`: of a frame that was never given.
    numbers: Vec<Option<u64>>,
    /// What the log of the hub had when the consumer went on.
    spilled_bytes: u64,
    /// From then until the last frame.
    replay: Duration,
}

/// Takes frames by and by, until there are no more or all of it `shall_end`. `log` is where the hub spills.
pub(super) fn take(
    mut pipe: impl Read,
    frame_bytes: usize,
    slow: Slow,
    log: &Path,
    shall_end: &AtomicBool,
) -> io::Result<Taken> {
    let (mut taken, mut frame) = (Taken::default(), vec![0; frame_bytes]);
    let rest = |until: Instant| {
        while Instant::now() < until && !shall_end.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    };
    let mut due = Instant::now();
    while read_frame(&mut pipe, &mut frame)? {
        taken.numbers.push(number_of(&frame));
        match slow {
            Slow::Drops(_) => {
                // One that had to wait for a frame does not hurry behind it.
                due = due.max(Instant::now()) + TAKES_EVERY;
                rest(due);
            }
            Slow::Stalls { stall, .. } if taken.numbers.len() == 1 => {
                rest(Instant::now() + stall);
                taken.spilled_bytes = bytes_in(log);
                due = Instant::now();
            }
            Slow::Stalls { .. } => {}
        }
    }
    taken.replay = due.elapsed();
    Ok(taken)
}

/// False: there are no more.
fn read_frame(pipe: &mut impl Read, frame: &mut [u8]) -> io::Result<bool> {
    let mut got = 0;
    while got < frame.len() {
        match pipe.read(&mut frame[got..]) {
            Ok(0) if got == 0 => return Ok(false),
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a frame was cut")),
            Ok(read) => got += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Bytes of the files of a spill log.
fn bytes_in(log: &Path) -> u64 {
    let entries = std::fs::read_dir(log).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum()
}

/// Where the hub spills what a channel at this path of an export has.
pub(super) fn log_of(channel: &Path) -> PathBuf {
    channel.with_added_extension("frames")
}

/// What was given, against what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Account {
    given: u64,
    taken: u64,
    named: u64,
    /// Given, and neither taken nor named.
    missing: u64,
    /// Taken or named more than once, or both.
    doubled: u64,
    /// Never given, with other bytes than were, out of order, or not as the program itself counts.
    wrong: u64,
}

impl Account {
    fn of(given: u64, taken: &[Option<u64>], named: &[(u64, u64)]) -> Account {
        let mut times = vec![0u32; usize::try_from(given).unwrap_or(usize::MAX)];
        let mut account = Account { given, taken: taken.len() as u64, ..Account::default() };
        let mut meet = |number: u64, wrong: &mut u64| match usize::try_from(number)
            .ok()
            .and_then(|number| times.get_mut(number))
        {
            Some(times) => *times += 1,
            None => *wrong += 1,
        };
        let mut next = 0;
        for number in taken {
            match number {
                None => account.wrong += 1,
                Some(number) => {
                    account.wrong += u64::from(*number < next);
                    next = next.max(number.saturating_add(1));
                    meet(*number, &mut account.wrong);
                }
            }
        }
        for &(first, end) in named {
            account.named += end.saturating_sub(first);
            // What no producer gave is wrong once, however long it is said to be.
            (first..end.min(given)).for_each(|number| meet(number, &mut account.wrong));
            account.wrong += u64::from(end > given || first >= end);
        }
        account.missing = times.iter().filter(|times| **times == 0).count() as u64;
        account.doubled = times.iter().map(|times| u64::from(times.saturating_sub(1))).sum();
        account
    }

    fn not_accounted(&self) -> u64 {
        self.missing + self.doubled + self.wrong
    }
}

/// Ranges that the program named as lost.
fn named(said: &Said) -> Vec<(u64, u64)> {
    let lost = said.events.iter().filter(|event| event["event"] == "lost");
    lost.filter_map(|event| Some((event["first"].as_u64()?, event["end"].as_u64()?))).collect()
}

/// Holds what was given against what came of it, and writes that into the sample.
pub(super) fn accounted(sample: Sample, slow: Slow, given: u64, said: &Said, taken: &Taken) -> Sample {
    let named = named(said);
    let mut account = Account::of(given, &taken.numbers, &named);
    let counts = [("frames", account.taken), ("lost", account.named)];
    let told = |key: &str| match &said.copied.finished[key] {
        serde_json::Value::Object(by_reason) => {
            by_reason.values().filter_map(serde_json::Value::as_u64).sum::<u64>()
        }
        count => count.as_u64().unwrap_or(0),
    };
    account.wrong += counts.iter().map(|(key, count)| u64::abs_diff(told(key), *count)).sum::<u64>();
    if let Slow::Stalls { .. } = slow {
        // What is spilled is replayed exactly: nothing of it may be lost, named or not.
        account.wrong += account.named;
    }
    let sample = [
        ("given", account.given),
        ("taken", account.taken),
        ("named_as_lost", account.named),
        (NOT_ACCOUNTED, account.not_accounted()),
    ]
    .into_iter()
    .fold(sample, |sample, (name, count)| sample.measured(name, count as f64, "1"));
    match slow {
        Slow::Drops(_) => sample,
        Slow::Stalls { .. } => sample.measured("spilled", taken.spilled_bytes as f64, "B").measured(
            "replay",
            taken.replay.as_secs_f64(),
            "s",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workspace::Copied;
    use serde_json::json;

    #[test]
    fn a_frame_with_other_bytes_has_no_number() {
        let mut frame = vec![0; 1000];
        for number in [0, 250, 251, u64::MAX] {
            fill(number, &mut frame);
            assert_eq!(number_of(&frame), Some(number));
        }
        frame[999] ^= 1;
        assert_eq!(number_of(&frame), None);
        fill(7, &mut frame);
        frame[0] = 8;
        assert_eq!(number_of(&frame), None, "its neighbour's bytes");
    }

    #[test]
    fn every_frame_is_taken_or_named_and_not_both() {
        let some = |numbers: &[u64]| -> Vec<Option<u64>> { numbers.iter().copied().map(Some).collect() };
        let exact = Account::of(6, &some(&[0, 3, 5]), &[(1, 3), (4, 5)]);
        assert_eq!((exact.taken, exact.named, exact.not_accounted()), (3, 3, 0));
        assert_eq!(Account::of(6, &some(&[0, 3]), &[(1, 3), (4, 5)]).missing, 1);
        assert_eq!(Account::of(6, &some(&[0, 3, 5]), &[(1, 4), (4, 5)]).doubled, 1, "taken and named");
        assert_eq!(Account::of(3, &some(&[0, 1, 1, 2]), &[]).doubled, 1);
        assert_eq!(Account::of(3, &some(&[0, 2, 1]), &[]).wrong, 1, "out of order");
        assert_eq!(Account::of(3, &some(&[0, 1, 2, 3]), &[]).wrong, 1, "never given");
        assert_eq!(Account::of(3, &some(&[0, 1, 2]), &[(3, u64::MAX)]).wrong, 1, "never given");
        assert_eq!(Account::of(3, &[Some(0), None, Some(2)], &[]).not_accounted(), 2, "missing, and another");
        assert_eq!(Account::of(3, &[], &[]).missing, 3);
    }

    #[test]
    fn a_frame_that_is_cut_is_an_error_and_the_end_is_none() {
        let slow = Slow::Stalls { stall: Duration::ZERO, frames: 2 };
        let mut bytes = Vec::new();
        give(&mut bytes, 2, 100).unwrap();
        let over = AtomicBool::new(false);
        let taken = take(&bytes[..], 100, slow, Path::new("/nowhere"), &over).unwrap();
        assert_eq!((taken.numbers, taken.spilled_bytes), (vec![Some(0), Some(1)], 0));
        assert!(take(&bytes[..199], 100, slow, Path::new("/nowhere"), &over).is_err());
    }

    #[test]
    fn a_sample_fails_by_what_is_not_accounted_for() {
        let said = |lost: u64| Said {
            copied: Copied {
                wall_s: 1.0,
                cpu_s: None,
                finished: json!({"frames": 2, "lost": {"dropped": lost}}),
            },
            events: vec![json!({"event": "lost", "first": 1, "end": 3, "reason": "dropped"})],
        };
        let taken = Taken { numbers: vec![Some(0), Some(3)], ..Taken::default() };
        let of = |slow, given, lost| accounted(Sample::default(), slow, given, &said(lost), &taken);
        let drops = Slow::Drops("drop-oldest");
        assert!(!of(drops, 4, 2).is_wrong());
        assert!(of(drops, 5, 2).is_wrong(), "the last is missing");
        assert!(of(drops, 4, 1).is_wrong(), "the program counts another number");
        let stalls = Slow::Stalls { stall: Duration::ZERO, frames: 4 };
        assert!(of(stalls, 4, 2).is_wrong(), "what is spilled is not lost");
    }
}
