//! Partials and journals that rot between a kill and the next attempt: rows I-8 and I-9 of docs/faults.md.

use crate::support::chance::{Random, quick_or_torture};
use crate::support::copies::{LIMIT, local_copy, make_source};
use crate::support::job::{Running, Strace, journal_bytes, with};
use crate::support::{Scratch, assert_no_litter, assert_same, wait_until};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stops a local copy in the middle, and returns the files that it left in its staging directory.
fn interrupted(scratch: &Scratch, to: &Path) -> Vec<PathBuf> {
    let slow = Strace::inject("pwrite64:delay_enter=80000");
    // One write at a time on each stream, so that there are rounds before the kill.
    let command = with(local_copy(scratch, to), ["--io-depth", "1"]);
    let mut job = Running::start(slow.around(&command));
    // Some chunks of what is under way are recorded: a digest of each has 32 bytes.
    assert!(wait_until(LIMIT, || journal_bytes(to) > 400 || job.is_over()));
    job.kill();
    let staging = std::fs::read_dir(to.join(".thalweg-staging")).expect("a staging directory").next();
    let staging = staging.expect("a job's directory").unwrap().path();
    std::fs::read_dir(staging)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect()
}

fn is_named(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
}

/// Changes bytes of a file and gives it its times again.
fn rot(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let meta = std::fs::metadata(path).unwrap();
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut content = vec![0; meta.len() as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    change(&mut content);
    file.set_len(content.len() as u64).unwrap();
    file.write_all_at(&content, 0).unwrap();
    let times = std::fs::FileTimes::new()
        .set_modified(meta.modified().unwrap())
        .set_accessed(meta.accessed().unwrap());
    file.set_times(times).unwrap();
}

#[test]
fn i8_a_partial_that_rots_between_kill_and_resume_is_not_believed() {
    let row = "I-8";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    make_source(&scratch.path("from"));
    for round in 0..quick_or_torture(2, 50) {
        let to = scratch.path("to");
        let left = interrupted(&scratch, &to);
        let partials: Vec<_> = left.iter().filter(|path| is_named(path, "partial-")).collect();
        assert!(!partials.is_empty(), "{left:?}");
        for partial in &partials {
            // One bit in each eighth of it, or only one at all.
            let flips = if round % 2 == 0 { 8 } else { 1 };
            rot(partial, |content| {
                for flip in 0..flips {
                    let part = content.len() as u64 / flips;
                    let at = (part * flip + random.below(part)) as usize;
                    content[at] ^= 1 << random.below(8);
                }
            });
        }
        let ran = Running::start(local_copy(&scratch, &to)).end(LIMIT).expect(0);
        assert!(ran.number("bytes_resumed") > 0 || round % 2 == 0, "nothing was resumed: {}", ran.finished());
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
        std::fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn i9_a_journal_that_the_disk_does_not_give_back_is_begun_anew() {
    if !Strace::available("I-9") {
        return;
    }
    let scratch = Scratch::in_memory();
    make_source(&scratch.path("from"));
    let to = scratch.path("to");
    let left = interrupted(&scratch, &to);
    let journal = left.iter().find(|path| is_named(path, "journal")).expect("a journal").clone();
    let bad = Strace::inject("pread64:error=EIO").with(["-P"]).with([journal]);
    Running::start(bad.around(&local_copy(&scratch, &to))).end(LIMIT).expect(0);
    assert_same(&scratch.path("from"), &to);
    assert_no_litter(&to);
}

#[test]
fn i9_a_journal_that_rots_never_gives_wrong_content() {
    let row = "I-9";
    if !Strace::available(row) {
        return;
    }
    let mut random = Random::new(row);
    let scratch = Scratch::in_memory();
    make_source(&scratch.path("from"));
    let to = scratch.path("to");
    let kept = scratch.path("kept");
    let left = interrupted(&scratch, &to);
    let journal = left.iter().find(|path| is_named(path, "journal")).expect("a journal").clone();
    let bytes = std::fs::metadata(&journal).unwrap().len();
    assert!(bytes > 100, "an empty journal proves nothing");
    let copy_tree = |from: &Path, to: &Path| {
        let _ = std::fs::remove_dir_all(to);
        let copied = Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    };
    copy_tree(&to, &kept);
    for round in 0..quick_or_torture(6, 400) {
        copy_tree(&kept, &to);
        let at = random.below(bytes) as usize;
        rot(&journal, |content| match round % 4 {
            0 => content[at] ^= 1 << random.below(8),
            1 => content.truncate(at),
            2 => content[at..].iter_mut().for_each(|byte| *byte = 0),
            _ => {
                // Two pieces change places.
                let half = content.len() / 2;
                let end = (at % half + 64).min(half);
                let (front, back) = content.split_at_mut(half);
                front[at % half..end].swap_with_slice(&mut back[at % half..end]);
            }
        });
        let ran = Running::start(local_copy(&scratch, &to)).end(LIMIT);
        assert_eq!(ran.code, Some(0), "round {round}, byte {at}: {}\n{}", ran.stdout, ran.stderr);
        assert_same(&scratch.path("from"), &to);
        assert_no_litter(&to);
    }
}
