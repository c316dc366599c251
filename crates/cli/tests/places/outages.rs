//! What is asked about a far place whose link is lost in the middle: it goes on where it was, or says why it cannot.

use super::support::copies::LIMIT;
use super::support::job::{Ran, Running, with};
use super::support::proxy::Proxy;
use super::support::{Daemon, Scratch, noise, wait_until};
use super::{daemon, with_ticket};

/// Two trees whose listings and digests take seconds at [`SLOW`], and which differ in three files, with a daemon that
/// has the second one, and a wire to it.
struct Compared {
    scratch: Scratch,
    daemon: Daemon,
    proxy: Proxy,
}

/// Bytes a second.
const SLOW: u64 = 400 << 10;

impl Compared {
    fn new() -> Compared {
        let scratch = Scratch::in_memory();
        let name = |number: usize| format!("d{}/{number:05}-{}", number / 1000, "n".repeat(100));
        for tree in ["from", "export"] {
            for number in 0..12_000 {
                let path = scratch.path(tree).join(name(number));
                if number % 1000 == 0 {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                }
                std::fs::write(path, number.to_string()).unwrap();
            }
        }
        let there = |number| scratch.path("export").join(name(number));
        std::fs::remove_file(there(1)).unwrap();
        std::fs::write(there(5005), "5500").unwrap();
        std::fs::write(there(11_000).with_file_name("zz"), "").unwrap();
        let daemon = daemon(&scratch);
        let proxy = Proxy::new(&daemon.address());
        proxy.limit(SLOW);
        Compared { scratch, daemon, proxy }
    }

    /// Compares them, over this place.
    fn check(&self, place: &str, patience: &str) -> Running {
        let from = self.scratch.path("from").display().to_string();
        let words = ["check", "--patience", patience, &from, place];
        Running::start(with(with_ticket(&self.scratch, &self.daemon), words))
    }

    /// Compares them over the wire, and waits until so many bytes passed it.
    fn under_way(&self, patience: &str, passed: u64) -> Running {
        let mut job = self.check(&self.proxy.place("ro", ""), patience);
        self.wait_for(passed, &mut job);
        job
    }

    /// What a command says and ends with whose link is lost twice, after so many bytes each time, and what it does
    /// over one that stands. Its last word is the place.
    fn lost_and_whole(&self, words: &[&str], path: &str, passed: u64) -> [Ran; 2] {
        let start = |place: &str| {
            let command = with(with_ticket(&self.scratch, &self.daemon), words);
            Running::start(with(command, [place]))
        };
        let whole = start(&self.daemon.place("ro", path)).end(LIMIT);
        let before = self.proxy.passed();
        let mut job = start(&self.proxy.place("ro", path));
        for times in [1, 2] {
            self.wait_for(before + times * passed, &mut job);
            assert!(self.proxy.cut());
        }
        [job.end(LIMIT), whole]
    }

    fn wait_for(&self, passed: u64, job: &mut Running) {
        assert!(wait_until(LIMIT, || self.proxy.passed() > passed || job.is_over()), "nothing passes");
        assert!(!job.is_over(), "it was over after {} bytes", self.proxy.passed());
    }

    /// Waits for its end, which has to say the same as that of a comparison whose link stood, and this of the link.
    fn assert_same_end(&self, job: Running, of_link: &str) {
        let (whole, ran) = (self.check(&self.daemon.place("ro", ""), "60s").end(LIMIT), job.end(LIMIT));
        assert_eq!((whole.code, ran.code), (Some(2), Some(2)), "{}{}", whole.stderr, ran.stderr);
        let told = ran.stdout.trim_end().strip_suffix(of_link);
        let told = told.unwrap_or_else(|| panic!("{}", ran.stdout));
        let sorted = |told: &str| {
            let mut lines: Vec<String> = told.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(told), sorted(&whole.stdout));
        assert_eq!(whole.stdout.lines().count(), 4, "{}", whole.stdout);
    }
}

#[test]
fn a_check_whose_link_is_lost_goes_on_and_finds_what_it_would_have_found() {
    let compared = Compared::new();
    let mut job = compared.under_way("60s", 500_000);
    // In the listing, and in the digests.
    for passed in [900_000, 1_400_000, 2_400_000] {
        assert!(compared.proxy.cut());
        compared.wait_for(passed, &mut job);
    }
    assert!(compared.proxy.cut());
    compared.assert_same_end(job, "; the link was lost 4 times");
}

/// A daemon keeps a session without transfers for seconds.
#[test]
fn a_check_outlasts_an_outage_in_which_the_daemon_forgets_its_session() {
    let compared = Compared::new();
    let job = compared.under_way("5min", 500_000);
    compared.proxy.refuse(true);
    assert!(compared.proxy.cut());
    let forgot = || compared.scratch.server_log().contains("the client did not come back");
    assert!(wait_until(LIMIT, forgot), "{}", compared.scratch.server_log());
    compared.proxy.refuse(false);
    compared.assert_same_end(job, "; the link was lost once");
}

#[test]
fn a_check_whose_far_side_stays_away_says_for_how_long_it_was_waited_for_and_what_to_do() {
    let compared = Compared::new();
    let job = compared.under_way("6s", 500_000);
    compared.proxy.refuse(true);
    assert!(compared.proxy.cut());
    let ran = job.end(LIMIT).expect(3);
    assert!(ran.stderr.contains("no progress for 6 s: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    // What was not told is not there for that.
    assert!(!ran.stdout.contains("zz") && !ran.stdout.contains("compared by digest"), "{}", ran.stdout);
}

#[test]
fn a_listing_and_a_sum_whose_link_is_lost_are_whole_and_tell_each_entry_once() {
    let compared = Compared::new();
    for words in [&["ls", "-R"][..], &["ls", "-R", "--json"], &["du"]] {
        let [ran, whole] = compared.lost_and_whole(words, "", 400_000);
        assert_eq!((ran.code, whole.code), (Some(0), Some(0)), "{words:?}: {}{}", ran.stderr, whole.stderr);
        assert!(ran.stdout == whole.stdout, "{words:?}: {} lines", ran.stdout.lines().count());
    }
}

#[test]
fn a_place_is_verified_over_as_many_links_as_it_takes_and_damage_is_told_once() {
    let compared = Compared::new();
    let scratch = &compared.scratch;
    let (tree, receipt) = (scratch.path("export/d3"), scratch.path("receipt"));
    let from = format!("{}/", tree.display());
    scratch.ok(["cp".into(), "--receipt".into(), receipt.clone(), from.into(), scratch.path("copy")]);
    let some = std::fs::read_dir(&tree).unwrap().next().unwrap().unwrap().path();
    std::fs::write(some, "none").unwrap();
    let receipt = receipt.display().to_string();
    let [ran, whole] = compared.lost_and_whole(&["verify", "--strict", &receipt], "d3", 150_000);
    assert_eq!((ran.code, whole.code), (Some(4), Some(4)), "{}{}", ran.stderr, whole.stderr);
    assert_eq!(ran.stdout, whole.stdout);
    assert_eq!(ran.stdout.matches("differs  ").count(), 1, "{}", ran.stdout);
}

#[test]
fn a_place_that_stays_away_while_damage_is_looked_for_is_waited_for_once_and_not_with_each_damaged_file() {
    let scratch = Scratch::in_memory();
    let (from, copy) = (scratch.path("from"), scratch.path("export/x"));
    std::fs::create_dir(&from).unwrap();
    for (seed, name) in [(1, "a"), (2, "b")] {
        std::fs::write(from.join(name), noise(seed, 8 << 20)).unwrap();
    }
    let daemon = daemon(&scratch);
    let (receipt, from) = (scratch.path("receipt").display().to_string(), format!("{}/", from.display()));
    scratch.ok(["cp", "--chunk", "4MiB", "--receipt", &receipt, &from, &copy.display().to_string()]);
    for name in ["a", "b"] {
        std::fs::write(copy.join(name), noise(3, 8 << 20)).unwrap();
    }
    let proxy = Proxy::new(&daemon.address());
    proxy.limit(SLOW);
    // It does not list, either, what it cannot reach.
    for (strict, code) in [(None, 4), (Some("--strict"), 3)] {
        proxy.refuse(false);
        let before = proxy.passed();
        let verify = with(with_ticket(&scratch, &daemon), ["verify", "--patience", "6s"]);
        let verify = with(with(verify, strict), [receipt.as_str(), &proxy.place("ro", "x")]);
        let mut job = Running::start(verify);
        // More than digests are: content.
        let is_read = || proxy.passed() > before + 300_000;
        assert!(wait_until(LIMIT, || is_read() || job.is_over()), "nothing passes");
        assert!(!job.is_over(), "it was over after {} bytes", proxy.passed() - before);
        proxy.refuse(true);
        assert!(proxy.cut());
        let ran = job.end(LIMIT).expect(code);
        let waited = ran.stderr.lines().filter(|line| line.contains("no progress for 6 s: "));
        assert_eq!(waited.count(), 1, "{}", ran.stderr);
        assert_eq!(ran.stdout.matches("differs  ").count(), 2, "{}", ran.stdout);
    }
}

#[test]
fn a_listing_whose_far_side_stays_away_ends_when_its_patience_does() {
    let compared = Compared::new();
    let place = compared.proxy.place("ro", "");
    let command = with_ticket(&compared.scratch, &compared.daemon);
    let mut job = Running::start(with(command, ["ls", "-R", "--patience", "6s", &place]));
    compared.wait_for(400_000, &mut job);
    compared.proxy.refuse(true);
    assert!(compared.proxy.cut());
    let ran = job.end(LIMIT).expect(3);
    assert!(ran.stderr.contains("no progress for 6 s: "), "{}", ran.stderr);
}

#[test]
fn a_file_that_is_printed_goes_on_behind_what_was_printed_and_ends_when_its_patience_does() {
    let scratch = Scratch::in_memory();
    let daemon = daemon(&scratch);
    // Some seconds at this rate.
    let content: String = (0..16_000).map(|line| format!("{line:0>99}\n")).collect();
    std::fs::write(scratch.path("export/file"), &content).unwrap();
    let proxy = Proxy::new(&daemon.address());
    proxy.limit(SLOW);
    let cat = |patience: &str| {
        let place = proxy.place("ro", "file");
        Running::start(with(with_ticket(&scratch, &daemon), ["cat", "--patience", patience, &place]))
    };
    let passes = |bytes: u64, job: &mut Running| {
        assert!(wait_until(LIMIT, || proxy.passed() > bytes || job.is_over()), "nothing passes");
        assert!(!job.is_over(), "it was over after {} bytes", proxy.passed());
    };
    let mut job = cat("60s");
    for bytes in [400_000, 900_000] {
        passes(bytes, &mut job);
        assert!(proxy.cut());
    }
    let ran = job.end(LIMIT).expect(0);
    assert!(ran.stdout == content, "{} bytes of {}", ran.stdout.len(), content.len());
    let before = proxy.passed();
    let mut job = cat("6s");
    passes(before + 400_000, &mut job);
    proxy.refuse(true);
    assert!(proxy.cut());
    let ran = job.end(LIMIT).expect(3);
    assert!(ran.stderr.contains("no progress for 6 s: "), "{}", ran.stderr);
    assert!(ran.stdout.len() < content.len() && content.starts_with(&ran.stdout), "{}", ran.stdout.len());
}
