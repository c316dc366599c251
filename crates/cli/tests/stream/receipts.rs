//! Receipts and reports of streams.

use crate::support::volume::{Volume, can_mount};
use crate::support::{Scratch, finish, noise, wait_until};
use crate::{LIMIT, Writer, append, command, holds, mark, piped};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Output, Stdio};

fn end(child: Child) -> Output {
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn report(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("a report");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_pipe_has_a_receipt_that_is_verified_here_and_there() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let (receipt, place) = (scratch.path("receipt"), daemon.place("data", "shot"));
    let mut child = piped(&scratch, &place, &["--receipt", receipt.to_str().unwrap()]);
    let content = noise(1, 3 << 20);
    child.stdin.take().unwrap().write_all(&content).unwrap();
    end(child);
    let receipt = receipt.to_str().unwrap();
    let there = export.join("shot");
    let ticket = scratch.path("ticket");
    scratch.ok(["verify", receipt, there.to_str().unwrap()]);
    scratch.ok(["verify", "--ticket", ticket.to_str().unwrap(), receipt, &place]);
    let mut rotten = content;
    rotten[1 << 20] ^= 1;
    std::fs::write(&there, &rotten).unwrap();
    let verified = scratch.run(["verify", receipt, there.to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(4), "{}", String::from_utf8_lossy(&verified.stderr));
    // One bit of the receipt.
    let mut text = std::fs::read(receipt).unwrap();
    let at = text.windows(6).position(|window| window == b"\"line\"").unwrap() + 12;
    text[at] ^= 1;
    std::fs::write(receipt, &text).unwrap();
    let verified = scratch.run(["verify", receipt, there.to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(4), "{}", String::from_utf8_lossy(&verified.stderr));
}

#[test]
fn a_tree_with_a_file_that_was_replaced_has_a_receipt_with_the_names_at_the_destination() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let mut writer = Writer::new(from.join("a"));
    writer.write(&noise(2, 100_000));
    let (receipt, told) = (scratch.path("receipt"), scratch.path("report"));
    let mut job = command(&scratch);
    job.args(["--until-marker", "OVER", "--receipt"]).arg(&receipt).arg("--report").arg(&told);
    job.arg(format!("{}/", from.display())).arg(format!("{}/", to.display()));
    let child = job.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait_until(LIMIT, || std::fs::metadata(to.join("a")).is_ok_and(|meta| meta.len() == 100_000)));
    // Another file takes its name.
    std::fs::write(scratch.path("new"), noise(3, 50_000)).unwrap();
    std::fs::rename(scratch.path("new"), from.join("a")).unwrap();
    drop(writer);
    assert!(wait_until(LIMIT, || std::fs::metadata(to.join("a.~2~")).is_ok_and(|meta| meta.len() == 50_000)));
    std::fs::write(from.join("OVER"), "").unwrap();
    end(child);
    let place = format!("{}/", to.display());
    scratch.ok(["verify", "--strict", receipt.to_str().unwrap(), &place]);
    let lines = report(&told);
    let mut names: Vec<&str> = lines
        .iter()
        .filter(|line| line["outcome"] == "done")
        .map(|line| line["path"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert!(names.contains(&"a") && names.contains(&"a.~2~"), "{names:?}");
    std::fs::remove_file(to.join("a.~2~")).unwrap();
    assert_eq!(scratch.run(["verify", receipt.to_str().unwrap(), &place]).status.code(), Some(2));
}

#[test]
fn a_file_that_was_complete_twice_is_verified_by_what_it_had_last() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let receipt = scratch.path("receipt");
    let mut job = command(&scratch);
    job.args(["--until-marker", "OVER", "--receipt"]).arg(&receipt);
    job.arg(format!("{}/", from.display())).arg(format!("{}/", to.display()));
    let child = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    append(&from.join("log"), b"first");
    assert!(holds(&to.join("log"), b"first"));
    // Complete by now: nobody has it open. The word of it is on its way back.
    assert!(wait_until(LIMIT, || mark(&scratch, &to.join("log")) == (5, true)));
    std::thread::sleep(std::time::Duration::from_millis(500));
    append(&from.join("log"), b" and second");
    assert!(holds(&to.join("log"), b"first and second"));
    append(&from.join("OVER"), b"");
    let output = end(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("16 B in 1 file streamed"), "{said}");
    let lines = std::fs::read_to_string(&receipt).unwrap();
    assert_eq!(lines.matches("log").count(), 2, "{lines}");
    let (receipt, there) = (receipt.to_str().unwrap(), format!("{}/", to.display()));
    scratch.ok(["verify", receipt, &there]);
    append(&to.join("log"), b" and more");
    let verified = scratch.run(["verify", receipt, &there]);
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(!verified.status.success() && said.contains("and 16 were copied"), "{said}");
}

#[test]
fn a_stream_that_is_interrupted_has_its_report() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    append(&from.join("a"), b"content");
    let told = scratch.path("report");
    let mut job = command(&scratch);
    job.args(["-f", "--report"]).arg(&told);
    job.arg(format!("{}/", from.display())).arg(format!("{}/", to.display()));
    let child = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(holds(&to.join("a"), b"content"));
    // It is told as soon as it is complete.
    assert!(wait_until(LIMIT, || report(&told).len() == 1));
    crate::support::job::signal(child.id(), nix::sys::signal::Signal::SIGINT);
    assert_eq!(finish(child).status.code(), Some(130));
    let lines = report(&told);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["path"], "a");

    // It ends by interruption only, and has nothing to sign then.
    let mut job = command(&scratch);
    job.args(["-f", "--receipt"]).arg(scratch.path("receipt")).arg(&from).arg(&to);
    assert_eq!(finish(job.spawn().unwrap()).status.code(), Some(1));
}

/// What came is there, and that is told.
#[test]
fn a_receipt_or_report_that_cannot_be_completed_does_not_hide_how_the_stream_ended() {
    if !can_mount("a full disk for the receipt of a stream") {
        return;
    }
    let scratch = Scratch::new();
    let volume = Volume::in_memory(scratch.root(), "full", "size=64k");
    // As much as there is room for.
    std::fs::write(volume.path.join("filler"), noise(1, 1 << 20)).unwrap_err();
    for option in ["--receipt", "--report"] {
        let to = scratch.path(option);
        let mut job = command(&scratch);
        job.arg("--json").arg(option).arg(volume.path.join("told")).arg("-").arg(&to);
        job.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = job.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"content").unwrap();
        let out = finish(child);
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        let last = told.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let last: serde_json::Value = last.unwrap_or_else(|| panic!("{option}: {out:?}"));
        assert_eq!(last["event"], "finished", "{option}: {told}");
        assert_eq!((out.status.code(), &last["exit"]), (Some(6), &6.into()), "{option}: {told}");
        assert!(told.contains("\"kind\":\"space\""), "{option}: {told}");
        assert_eq!(std::fs::read(&to).unwrap(), b"content");
    }
}
