//! State directories for which there is no room.

use super::copy;
use super::support::copies::LIMIT;
use super::support::job::{Running, with};
use super::support::volume::{Volume, can_mount};
use super::support::{Scratch, assert_no_litter, assert_same, noise};
use std::ffi::OsStr;

#[test]
fn d1_a_full_state_directory_costs_no_copy() {
    let row = "D-1 state";
    if !can_mount(row) {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    for i in 0..2000u64 {
        std::fs::write(from.join(format!("file-{i:04}")), noise(i, 100)).unwrap();
    }
    let volume = Volume::in_memory(scratch.root(), "state", "size=1m");
    let to = scratch.path("to");
    let state = volume.path.join("state");
    let run = || Running::start(with(with(copy(&scratch, &from, &to), ["--state"]), [&state])).end(LIMIT);
    run().expect(0);
    std::fs::write(volume.path.join("filler"), vec![1; 2 << 20]).unwrap_err();
    std::fs::write(from.join("file-new"), noise(5000, 3000)).unwrap();
    run().expect(0);
    assert_eq!(std::fs::read(to.join("file-new")).unwrap(), noise(5000, 3000));
    std::fs::remove_file(volume.path.join("filler")).unwrap();
    run().expect(0);
    assert_same(&from, &to);
    assert_no_litter(&to);
}

/// The first copy of somebody whose home is full: there is no directory yet.
#[test]
fn d1_a_state_directory_that_cannot_be_made_costs_no_copy_and_no_stream() {
    if !can_mount("D-1 state that cannot be made") {
        return;
    }
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::write(&from, noise(1, 300_000)).unwrap();
    // In memory a directory needs no room, but an inode.
    let volume = Volume::in_memory(scratch.root(), "home", "size=1m,nr_inodes=8");
    let is_full =
        (0..16).any(|number: u32| std::fs::write(volume.path.join(number.to_string()), "").is_err());
    assert!(is_full);
    let state = volume.path.join("state/thalweg");
    let run = |words: &[&OsStr]| {
        let command = with(with(scratch.thalweg(), words), [OsStr::new("--state"), state.as_os_str()]);
        Running::start(command).end(LIMIT)
    };
    for (verb, name) in [("cp", "copy"), ("stream", "streamed")] {
        let to = scratch.path(name);
        let receipt = scratch.path(&format!("{name}.receipt"));
        let words = [
            OsStr::new(verb),
            from.as_os_str(),
            to.as_os_str(),
            OsStr::new("--receipt"),
            receipt.as_os_str(),
        ];
        let ran = run(&words).expect(0);
        assert_eq!(std::fs::read(&to).unwrap(), noise(1, 300_000));
        let warning = "warning: create the state directory failed: `";
        assert_eq!(ran.stderr.matches(warning).count(), 1, "{}", ran.stderr);
        assert!(receipt.exists());
    }
    assert!(!state.exists());
    // What is to be kept is refused.
    let to = scratch.path("to");
    for words in [["cp", "--detach"], ["watch", "--quiet"]] {
        let words = words.map(OsStr::new);
        run(&[words[0], words[1], from.as_os_str(), to.as_os_str()]).expect(6);
    }
}
