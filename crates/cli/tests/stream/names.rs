//! Streamed trees with names that somebody made to hurt.

use crate::support::{Scratch, assert_no_litter, finish, noise, wait_until};
use crate::{LIMIT, Writer, command};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

const NAMES: [&[u8]; 12] = [
    b"plain",
    b"-rf",
    b"line\nbreak",
    b"\x1b[31mred\x1b]0;title\x07",
    b"not utf-8 \xff\xfe",
    b"a b/deep/\x7f",
    b"$(touch pwned)",
    b"`touch pwned`",
    b"@site",
    b"tw:x",
    b"x.~2~",
    b"..hidden",
];

fn contents(root: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    NAMES
        .iter()
        .map(|name| (name.to_vec(), std::fs::read(root.join(OsStr::from_bytes(name))).unwrap_or_default()))
        .collect()
}

#[test]
fn names_arrive_as_they_are_and_are_shown_escaped() {
    let scratch = Scratch::new();
    let (from, export) = (scratch.path("from"), scratch.path("export"));
    std::fs::create_dir(&export).unwrap();
    for (seed, name) in (0..).zip(NAMES) {
        let path = from.join(OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, noise(seed, 1000 + 37 * seed as usize)).unwrap();
    }
    std::fs::write(from.join("n".repeat(255)), b"long").unwrap();
    std::fs::write(from.join("OVER"), b"").unwrap();
    // A link and a device are no streams; nothing goes through them.
    std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    for json in [false, true] {
        let mut job = command(&scratch);
        job.args(["-v", "--until-marker", "OVER"]).args(json.then_some("--json"));
        job.arg(format!("{}/", from.display())).arg(daemon.place("data", if json { "b/" } else { "a/" }));
        let child = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = finish(child);
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{said}");
        let odd = said.chars().find(|&c| c.is_control() && c != '\n');
        assert_eq!(odd, None, "{said:?}");
        let to = export.join(if json { "b" } else { "a" });
        assert!(contents(&from) == contents(&to), "{said}");
        assert_eq!(std::fs::read(to.join("n".repeat(255))).unwrap(), b"long");
        assert!(!to.join("link").exists() && !to.join("OVER").exists(), "{said}");
    }
    assert_no_litter(&export);
    assert!(!scratch.path("pwned").exists());
}

#[test]
fn a_file_that_was_replaced_takes_no_name_that_another_has() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("x.~2~"), noise(1, 777)).unwrap();
    let long = "n".repeat(255);
    let mut writers = [Writer::new(from.join("x")), Writer::new(from.join(&long))];
    writers.iter_mut().for_each(|writer| writer.write(&noise(2, 5000)));
    let mut job = command(&scratch);
    job.args(["--until-marker", "OVER"]);
    job.arg(format!("{}/", from.display())).arg(format!("{}/", to.display()));
    let child = job.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let has = |name: &str, bytes: u64| std::fs::metadata(to.join(name)).is_ok_and(|meta| meta.len() == bytes);
    assert!(wait_until(LIMIT, || has("x", 5000) && has(&long, 5000) && has("x.~2~", 777)));
    for name in ["x", &long] {
        std::fs::write(scratch.path("new"), noise(3, 4000)).unwrap();
        std::fs::rename(scratch.path("new"), from.join(name)).unwrap();
    }
    drop(writers);
    assert!(
        wait_until(LIMIT, || has("x.~3~", 4000)),
        "{:?}",
        std::fs::read_dir(&to).unwrap().collect::<Vec<_>>()
    );
    std::fs::write(from.join("OVER"), b"").unwrap();
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr);
    // What replaced the longest of names has none at the destination: told, and the others are complete.
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&long[..100]), "{said}");
    assert!(std::fs::read(to.join("x")).unwrap() == noise(2, 5000));
    assert!(std::fs::read(to.join(&long)).unwrap() == noise(2, 5000));
    assert!(std::fs::read(to.join("x.~2~")).unwrap() == noise(1, 777));
    assert!(std::fs::read(to.join("x.~3~")).unwrap() == noise(3, 4000));
}
