//! What tests skip, and say so: a line that begins with `skipped: `, or with `skipped in part: `. libtest shows what a
//! test says that succeeds only where it is asked to, and then all of it.

/// What CI skips: words of such a line, and why that is no loss. It fails for any other.
const IN_CI: &[(&str, &str)] = &[
    ("root may", "nobody does it, at the end"),
    ("vfat cannot be mounted here", "the kernel has none"),
    ("-O casefold", "the kernel has no Unicode"),
    ("no file system here folds case", "the kernel has no Unicode"),
    ("-O quota,project", "the kernel has no projects of ext4; XFS has some too"),
    ("kTLS: ", "the kernel has none; `cargo xtask ktls` does it in a guest"),
    ("settings of a kernel: ", "`cargo xtask ktls` does it in a guest"),
    ("users may have all that the kernel has", "a kernel may permit all of them to everybody"),
    ("IPv6", "a container may have none"),
    ("[::1]:0", "a container may have no IPv6"),
    ("uncached writ", "not every kernel has such writes of ext4"),
    ("what is cached", "a kernel short of memory keeps what it likes"),
];

/// Whether a line says that something was skipped.
fn is_skip(line: &str) -> bool {
    line.starts_with("skipped: ") || line.starts_with("skipped in part: ")
}

/// All such lines of what a program of tests said.
pub fn lines(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|line| is_skip(line))
}

/// Begins both lists of a program of tests that was asked to show what those said that succeeded: what they said, and
/// their names.
const SUCCESSES: &str = "successes:";

/// What it said, without both lists, but for what was skipped.
pub fn shown(said: &str) -> String {
    let (mut shown, mut lists) = (String::new(), 0);
    for line in said.lines() {
        match lists {
            _ if line == SUCCESSES && lists < 2 => {
                lists += 1;
                continue;
            }
            1 if !is_skip(line) => continue,
            2 if line.starts_with("    ") => continue,
            2 => lists = 3,
            _ => {}
        }
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

/// Tells what was skipped, and why where CI does so too: how much is not to be skipped there.
pub fn tell(skipped: &[(String, String)]) -> usize {
    println!("==> skipped: {}", skipped.len());
    let mut unexpected = 0;
    for (program, line) in skipped {
        match why(line) {
            Some(why) => println!("{program}: {line} ({why})"),
            None => {
                println!("{program}: {line} (not in CI)");
                unexpected += 1;
            }
        }
    }
    unexpected
}

fn why(line: &str) -> Option<&'static str> {
    IN_CI.iter().find(|(words, _)| line.contains(words)).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_tests_that_succeed_only_what_they_skipped_is_shown_and_of_others_everything() {
        let (begun, failed) = (
            "\nrunning 3 tests\nskipped: fuse: no bindfs\ntest a ... ok\ntest b ... FAILED\n\n",
            "\nfailures:\n\n---- b stdout ----\nwhy\n\n\nfailures:\n    b\n\ntest result: FAILED. 2 passed\n",
        );
        let captured = "\n---- a stdout ----\nlong\nskipped: vfat cannot be mounted here\n\n\
                        ---- c stdout ----\nskipped in part: no io_uring here\nskipped over\n\n\n";
        let said = format!("{begun}successes:\n{captured}successes:\n    a\n    c\n{failed}");
        let kept = "skipped: vfat cannot be mounted here\nskipped in part: no io_uring here\n";
        assert_eq!(shown(&said), format!("{begun}{kept}{failed}"));
        assert_eq!(lines(&said).count(), 3);
    }

    #[test]
    fn what_a_program_says_that_ends_early_is_shown_whole() {
        let said = "running 2 tests\ntest a ... ok\nfatal runtime error\n";
        assert_eq!(shown(said), said);
    }

    #[test]
    fn only_what_has_a_reason_may_be_skipped_in_ci() {
        let skipped = |lines: &[&str]| -> Vec<(String, String)> {
            lines.iter().map(|line| ("p".to_owned(), (*line).to_owned())).collect()
        };
        assert_eq!(tell(&skipped(&["skipped: vfat cannot be mounted here"])), 0);
        assert_eq!(tell(&skipped(&["skipped: fuse: no bindfs", "skipped: root may read everything"])), 1);
    }
}
