//! Copies that delete, and what they write themselves.

use super::support::Scratch;

/// A file to copy, and a destination with one that the source lacks; and a link to that destination.
fn places() -> Scratch {
    let scratch = Scratch::new();
    for directory in ["from/log", "there/log", "stage"] {
        std::fs::create_dir_all(scratch.path(directory)).unwrap();
    }
    std::fs::write(scratch.path("from/file"), "data").unwrap();
    std::fs::write(scratch.path("there/old"), "x").unwrap();
    std::os::unix::fs::symlink("there", scratch.path("link")).unwrap();
    scratch
}

/// The report would be gone with all that it says, and no receipt be left.
#[test]
fn a_receipt_or_report_that_the_copy_itself_would_delete_is_refused_before_anything_moves() {
    let scratch = places();
    let at = |name: &str| scratch.path(name).display().to_string();
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    let (ticket, stage) = (daemon.ticket.display().to_string(), at("stage"));
    let refused = |words: &[&str], option: &str| {
        let out = scratch.run(["sync", "--delete", "--ticket", &ticket].iter().chain(words));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{words:?}: {said}");
        for word in ["is in the destination", "--exclude", option] {
            assert!(said.contains(word), "{word}, {words:?}: {said}");
        }
        let mut names: Vec<_> = std::fs::read_dir(scratch.path("there"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["log", "old"], "{words:?}");
        assert_eq!(std::fs::read_dir(scratch.path("there/log")).unwrap().count(), 0, "{words:?}");
    };
    for from in [at("from/"), daemon.place("data", "from/")] {
        // There, by a link, in a directory that the source has too.
        for (to, file) in [("there/", "there/x"), ("there", "link/log/x"), ("link/", "there/log/x")] {
            for option in ["--receipt", "--report"] {
                refused(&[option, &at(file), &from, &at(to)], option);
            }
        }
    }
    let (from, to) = (at("from/"), at("there/"));
    refused(&["--stage", &stage, "--report", &at("there/x"), &from, &to], "--report");
    // A rule for its name does not keep a receipt that is not whole yet.
    refused(&["--exclude", "x", "--receipt", &at("there/x"), &from, &to], "--receipt");
    // Of several copies, too: one of them would delete it.
    let second = at("other/");
    refused(&["--report", &at("there/x"), &from, &second, "--and", &from, &to], "--report");
}

#[test]
fn what_a_copy_writes_into_its_destination_stays_where_nothing_would_delete_it() {
    let scratch = places();
    let at = |name: &str| scratch.path(name).display().to_string();
    let (from, to) = (at("from/"), at("there/"));
    let (report, receipt) = (at("there/x.report"), at("there/log/x.receipt"));
    let words = ["sync", "--delete", "--exclude", "*x.re*", "--report", &report, "--receipt", &receipt];
    scratch.ok(words.iter().chain(&[from.as_str(), &to]));
    assert!(scratch.path("there/file").exists() && !scratch.path("there/old").exists());
    let told = std::fs::read_to_string(&report).unwrap();
    assert!(told.contains(r#""event":"deleted""#), "{told}");
    assert!(scratch.path("there/log/x.receipt").exists());
    // Beside what a source becomes nothing is deleted.
    std::fs::create_dir(scratch.path("there/from")).unwrap();
    std::fs::write(scratch.path("there/from/old"), "x").unwrap();
    let report = at("there/beside");
    scratch.ok(["sync", "--delete", "--report", &report, &at("from"), &to]);
    assert!(scratch.path("there/beside").exists() && !scratch.path("there/from/old").exists());
    // Nor without --delete.
    scratch.ok(["sync", "--report", &report, &from, &to]);
    assert!(std::fs::read_to_string(&report).unwrap().contains("continued"));
}
