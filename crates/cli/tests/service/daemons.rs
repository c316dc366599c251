//! Copies between two daemons, of which one acts. Promises 141 to 144 of SPEC.md.

use super::metrics::{page, sample, told_at};
use super::support::job::{Ran, Running, journal_bytes, signal, with};
use super::support::peer::{HostileClient, terms};
use super::support::{Daemon, Scratch, assert_no_litter, assert_same, make_tree, noise, wait_until};
use nix::sys::signal::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::far_movers::{How, SshOptions};
use thalweg_client::job::Asked;
use thalweg_client::place::Places;
use thalweg_mover::event;
use thalweg_mover::link::{Identity, Ticket};
use thalweg_mover::run::copy::{Remembered, Stop, Watch, Wishes};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::message::{
    FilterRule, Message, Open, Place, Pull, Push, Question, Reply, Request, TransferNumber, Vouch,
};

const LIMIT: Duration = Duration::from_secs(300);
/// In chunks of which many are durable soon.
const CHUNK: [&str; 2] = ["--chunk", "256KiB"];
/// And so slowly that what is watched is seen.
const SLOW: [&str; 4] = ["--chunk", "256KiB", "--bwlimit", "2MB/s"];
const FILE_BYTES: usize = 64 << 20;

/// Two machines with a daemon each, and that of the user.
struct Site {
    from: Scratch,
    to: Scratch,
    here: Scratch,
    source: Daemon,
    destination: Daemon,
}

/// Who may be sent to the other one.
enum Acts {
    Source,
    Destination,
    Nobody,
}

impl Site {
    fn start(acts: &Acts) -> Site {
        Site::start_with(acts, "")
    }

    /// `flags`: of the export that is written.
    fn start_with(acts: &Acts, flags: &str) -> Site {
        Site::start_as(acts, flags, &[])
    }

    /// `options`: of both daemons.
    fn start_as(acts: &Acts, flags: &str, options: &[&str]) -> Site {
        let (from, to, here) = (Scratch::new(), Scratch::new(), Scratch::new());
        std::fs::create_dir(from.path("data")).unwrap();
        std::fs::create_dir(to.path("in")).unwrap();
        let serve = |scratch: &Scratch, name: &str, flags: &str, errands: Option<String>| {
            let directory = PathBuf::from(format!("{}{flags}", scratch.path(name).display()));
            let mut more = vec!["--log-format".to_owned(), "json".to_owned()];
            more.extend(errands.map(|errands| format!("--errands={errands}")));
            more.extend(options.iter().map(|&option| option.to_owned()));
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            scratch.daemon_with(&[(name, directory.as_path())], &more)
        };
        let (source, destination) = match acts {
            Acts::Source => {
                let destination = serve(&to, "in", flags, None);
                (serve(&from, "data", "", Some(destination.address())), destination)
            }
            Acts::Destination => {
                let source = serve(&from, "data", "", None);
                let errands = format!("dtn.example.org,{}", source.address());
                (source, serve(&to, "in", flags, Some(errands)))
            }
            Acts::Nobody => {
                // Another port of the same host is another daemon.
                let source = serve(&from, "data", "", None);
                (source, serve(&to, "in", flags, Some("127.0.0.1:1".to_owned())))
            }
        };
        let site = Site { from, to, here, source, destination };
        // A daemon that is started anew writes its own again.
        std::fs::copy(&site.source.ticket, site.ticket("from")).unwrap();
        std::fs::copy(&site.destination.ticket, site.ticket("to")).unwrap();
        site
    }

    fn ticket(&self, name: &str) -> PathBuf {
        self.here.path(&format!("{name}.ticket"))
    }

    fn command(&self, verb: &str, words: &[&str], name: &str, to: &str) -> Running {
        let command = with(self.here.thalweg(), [verb, "--ticket"]);
        let command = with(with(command, [self.ticket("from")]), ["--to-ticket"]);
        let command = with(with(command, [self.ticket("to")]), words);
        Running::start(with(command, [self.source.place("data", name), self.destination.place("in", to)]))
    }

    fn run(&self, words: &[&str], name: &str, to: &str) -> Ran {
        self.command("cp", words, name, to).end(LIMIT)
    }

    fn ok(&self, words: &[&str], name: &str, to: &str) -> Ran {
        self.run(words, name, to).expect(0)
    }

    /// A file that takes a while.
    fn large(&self) {
        std::fs::write(self.from.path("data/large"), noise(7, FILE_BYTES)).unwrap();
    }

    /// Waits until some of it is durable at the destination.
    #[track_caller]
    fn moves(&self) {
        assert!(wait_until(LIMIT, || journal_bytes(&self.to.path("in")) > 500), "nothing arrives");
    }

    #[track_caller]
    fn is_there(&self) {
        let there = std::fs::read(self.to.path("in/large")).unwrap();
        assert!(there == noise(7, FILE_BYTES), "it is another");
        assert_no_litter(&self.to.path("in"));
    }
}

/// Lines of a log about what was said.
fn logged(scratch: &Scratch, message: &str) -> Vec<serde_json::Value> {
    let log = scratch.server_log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line.to_string().contains(message)).collect()
}

#[test]
fn data_go_from_one_daemon_to_the_other_whichever_acts_and_not_to_the_user() {
    for acts in [Acts::Destination, Acts::Source] {
        let site = Site::start(&acts);
        let tree = site.from.path("data/run7");
        std::fs::create_dir(&tree).unwrap();
        make_tree(&tree);
        let receipt = site.here.path("receipt");
        let ran = site.ok(&["--json", "--receipt", receipt.to_str().unwrap()], "run7", "");
        assert_same(&tree, &site.to.path("in/run7"));
        assert!(ran.finished()["root"].is_string(), "{}", ran.stdout);
        assert!(ran.stdout.lines().any(|line| line.contains("\"event\":\"entry\"")), "{}", ran.stdout);
        // Both signed it, each with its own key.
        let place = site.destination.place("in", "");
        let ticket = site.ticket("to");
        let words: [&OsStr; 5] =
            ["verify".as_ref(), "--ticket".as_ref(), ticket.as_os_str(), receipt.as_os_str(), place.as_ref()];
        site.here.ok(words);
        // Whom data went to and came from is the other daemon, and the user asked.
        let other = if matches!(acts, Acts::Source) { &site.to } else { &site.from };
        let begun = logged(other, "transfer begins");
        assert!(!begun.is_empty() && begun.iter().all(|line| line.to_string().contains("owner, by ")));
        let acting = if matches!(acts, Acts::Source) { &site.from } else { &site.to };
        assert!(logged(acting, "transfer begins").is_empty(), "{}", acting.server_log());
        assert_eq!(logged(acting, "a copy between daemons is done").len(), 1, "{}", acting.server_log());
        // What is there already is found there.
        let again = site.ok(&["--json"], "run7", "");
        assert_eq!(again.number("bytes_received"), 0, "{}", again.stdout);
    }
}

#[test]
fn what_is_asked_of_a_copy_counts_between_two_daemons_too() {
    let site = Site::start(&Acts::Destination);
    let tree = site.from.path("data/run7");
    std::fs::create_dir(&tree).unwrap();
    for name in ["a", "b.tmp", "c"] {
        std::fs::write(tree.join(name), noise(3, 10_000)).unwrap();
    }
    let there = |name: &str| site.to.path("in/run7").join(name).exists();
    let dry = site.ok(&["-n"], "run7/", "run7");
    assert!(dry.stdout.contains("would be copied") && !site.to.path("in/run7").exists(), "{}", dry.stdout);
    site.ok(&["--exclude", "*.tmp"], "run7/", "run7");
    assert!(there("a") && there("c") && !there("b.tmp"));
    std::fs::remove_file(tree.join("c")).unwrap();
    let synced = site.command("sync", &["--delete", "-v"], "run7/", "run7").end(LIMIT).expect(0);
    assert!(!there("c") && there("b.tmp"), "{}", synced.stderr);
    assert!(synced.stderr.contains("c (deleted)"), "{}", synced.stderr);
    let list = site.here.path("list");
    std::fs::write(&list, "a\n").unwrap();
    site.ok(&["--files-from", list.to_str().unwrap()], "run7", "listed");
    let listed = std::fs::read_dir(site.to.path("in/listed")).unwrap().count();
    assert_eq!(listed, 1);
    let refused = site.run(&["--remove-source-files"], "run7", "");
    assert!(refused.code == Some(1) && refused.stderr.contains("leaves its source files"), "{refused:?}");
}

/// A file with several names is dealt by its number, any other by its name, and once.
#[test]
fn two_daemons_that_send_a_part_each_send_all_also_files_with_several_names() {
    let (from, beside, to, here) = (Scratch::new(), Scratch::new(), Scratch::new(), Scratch::new());
    let (data, tree, export) = (from.path("data"), from.path("data/run7"), to.path("in"));
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::create_dir(&export).unwrap();
    for number in 0..24 {
        let file = tree.join(format!("{number}"));
        std::fs::write(&file, noise(number, 1000)).unwrap();
        if number % 3 > 0 {
            std::fs::hard_link(&file, tree.join(format!("second-{number}"))).unwrap();
        }
    }
    let destination = to.daemon(&[("in", &export)]);
    let errands = format!("--errands={}", destination.address());
    let more = ["--log-format", "json", errands.as_str()];
    let one = from.daemon_with(&[("data", &data)], &more);
    // Two daemons of one site have one key.
    let state = beside.path("server-state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    for key in ["server.pem", "client.pem"] {
        std::fs::copy(from.path("server-state").join(key), state.join(key)).unwrap();
    }
    let other = beside.daemon_with(&[("data", &data)], &more);
    let command = with(with(here.thalweg(), ["cp", "--ticket"]), [&one.ticket]);
    let command = with(with(command, ["--to-ticket"]), [&destination.ticket]);
    let sources = format!("tw://{},{}/data/run7/", one.address(), other.address());
    Running::start(with(command, [sources, destination.place("in", "run7/")])).end(LIMIT).expect(0);
    for acting in [&from, &beside] {
        let done = logged(acting, "a copy between daemons is done");
        assert_eq!(done.len(), 1, "{}", acting.server_log());
    }
    assert_same(&tree, &export.join("run7"));
}

#[test]
fn a_daemon_is_sent_to_nobody_and_to_none_but_those_that_its_operator_named() {
    let site = Site::start(&Acts::Nobody);
    std::fs::write(site.from.path("data/x"), b"x").unwrap();
    let ran = site.run(&[], "x", "").expect(3);
    let words = [
        "its operator lets it be sent to nobody",
        "is none of those that its operator lets it be sent to",
        "--errands",
        "HOST:PATH",
    ];
    assert!(words.iter().all(|words| ran.stderr.contains(words)), "{}", ran.stderr);
    assert!(!site.to.path("in/x").exists());
}

#[test]
fn what_the_export_at_the_destination_does_not_permit_is_refused() {
    for (acts, flags, refused) in [
        (Acts::Destination, ":ro", "read-only"),
        (Acts::Source, ":ro", "read-only"),
        (Acts::Destination, ":no-delete", "nothing is deleted"),
    ] {
        let site = Site::start_with(&acts, flags);
        std::fs::create_dir(site.from.path("data/run7")).unwrap();
        std::fs::write(site.from.path("data/run7/x"), b"x").unwrap();
        let ran = site.command("sync", &["--delete"], "run7/", "").end(LIMIT).expect(3);
        assert!(ran.stderr.contains(refused), "{}", ran.stderr);
        assert!(!site.to.path("in/x").exists());
    }
}

#[test]
fn a_copy_between_two_daemons_ends_with_predicted_against_actual_and_teaches_the_next() {
    for acts in [Acts::Destination, Acts::Source] {
        let site = Site::start(&acts);
        std::fs::write(site.from.path("data/file"), noise(1, 4 << 20)).unwrap();
        let report = site.here.path("report");
        let copy =
            |more: &[&str], to: &str| site.ok(&[&["--json"][..], more].concat(), "file", to).finished();
        let first = copy(&[], "first");
        assert!(first["prediction"].is_object(), "{first}");
        let again = copy(&["--report", report.to_str().unwrap()], "second");
        let told = &again["prediction"];
        assert!(told["wrong"].is_string() && told["within"].is_boolean(), "{told}");
        assert!(told["after_s"].is_null() && told["rests_on"] == 1, "{told}");
        let report = std::fs::read_to_string(report).unwrap();
        assert!(report.lines().last().unwrap().contains("\"event\":\"prediction\""), "{report}");
        // In words.
        let words = site.ok(&[], "file", "third").stdout;
        assert!(words.contains("; predicted "), "{words}");
        assert!(copy(&["--no-profile"], "fourth")["prediction"].is_null());
        assert!(copy(&["--dry-run"], "fifth")["prediction"].is_null());
        assert_eq!(copy(&[], "second")["prediction"]["missing"], "little-moved");
        // It is remembered where it was asked for, and names nobody.
        let known = std::fs::read_to_string(site.here.path("client-state/profiles.json")).unwrap();
        assert!(!known.contains("127.0.0.1") && !known.contains("data"), "{known}");
        for daemon in [&site.from, &site.to] {
            assert!(!daemon.path("server-state/profiles.json").exists());
        }
    }
}

/// The daemon that acts hands on what its beginning showed. On a machine that is held up so many round trips may be
/// longer than half of the copy, which then shows nothing: another one is made, of which nothing is known either.
#[test]
fn the_first_copy_between_two_daemons_is_predicted_by_its_own_beginning() {
    let copy = |_| {
        let site = Site::start(&Acts::Destination);
        std::fs::write(site.from.path("data/file"), noise(1, 12 << 20)).unwrap();
        let ran = site.ok(&["--json", "--chunk", "256KiB", "--bwlimit", "3MB/s"], "file", "");
        ran.finished()["prediction"].clone()
    };
    let told =
        (0..4).map(copy).find(|told| told["missing"] != "profile").expect("a beginning that shows something");
    assert!(told["missing"].is_null() && told["after_s"].as_f64() > Some(0.0), "{told}");
    assert!(told["after_s"].as_f64() < told["actual_s"].as_f64() && told["wrong"].is_string(), "{told}");
}

#[test]
fn a_daemon_that_acts_counts_its_end_of_a_copy_as_a_transfer_of_its_export() {
    for acts in [Acts::Destination, Acts::Source] {
        let site = Site::start_as(&acts, "", &["--metrics=127.0.0.1:0"]);
        std::fs::write(site.from.path("data/file"), noise(1, 300_000)).unwrap();
        site.ok(&[], "file", "");
        let (acting, export, direction, wire) = match acts {
            Acts::Source => (&site.from, "data", "pull", "thalweg_wire_sent_bytes_total"),
            _ => (&site.to, "in", "push", "thalweg_wire_received_bytes_total"),
        };
        let way = format!("kind=\"files\",direction=\"{direction}\"");
        let wanted = [
            (format!("thalweg_transfers_begun_total{{{way}}}"), 1.0),
            (format!("thalweg_transfers_ended_total{{{way},outcome=\"done\"}}"), 1.0),
            (format!("thalweg_transfers_running{{{way}}}"), 0.0),
            (format!("thalweg_transfer_bytes_total{{export=\"{export}\",{way}}}"), 300_000.0),
            (format!("thalweg_transfer_entries_total{{export=\"{export}\",{way}}}"), 1.0),
            (format!("thalweg_ticket_bytes_total{{ticket=\"owner\",direction=\"{direction}\"}}"), 300_000.0),
        ];
        let address = told_at(acting);
        let is_told = || {
            let page = page(address);
            wanted.iter().all(|(name, number)| sample(&page, name) == Some(*number))
                && sample(&page, wire) > Some(300_000.0)
        };
        assert!(wait_until(LIMIT, is_told), "{}", page(address));
    }
}

#[test]
fn a_copy_resumes_when_the_user_was_cut_off_and_stops_when_he_asks() {
    let site = Site::start(&Acts::Destination);
    site.large();
    let running = site.command("cp", &SLOW, "large", "");
    site.moves();
    running.kill();
    let ran = site.ok(&[&CHUNK[..], &["--json"]].concat(), "large", "");
    assert!(ran.number("bytes_resumed") > 0, "{}", ran.stdout);
    site.is_there();
    std::fs::remove_file(site.to.path("in/large")).unwrap();
    let running = site.command("cp", &SLOW, "large", "");
    site.moves();
    signal(running.pid(), Signal::SIGINT);
    let stopped = running.end(LIMIT).expect(130);
    assert!(stopped.stderr.contains("the same command resumes it"), "{}", stopped.stderr);
    let is_over = || logged(&site.to, "a copy between daemons failed").len() >= 2;
    assert!(wait_until(LIMIT, is_over), "{}", site.to.server_log());
}

#[test]
fn a_copy_goes_on_when_the_daemon_that_acts_was_killed_and_is_there_again() {
    let mut site = Site::start(&Acts::Destination);
    site.large();
    let (address, errands) = (site.destination.address(), format!("--errands={}", site.source.address()));
    let running = site.command("cp", &[&SLOW[..], &["--json"]].concat(), "large", "");
    site.moves();
    let export = site.to.path("in");
    let again = |site: &Site| {
        let exports: [(&str, &Path); 1] = [("in", &export)];
        site.to.daemon_at(&address, &exports, &[&errands], |command| command)
    };
    signal(site.destination.pid(), Signal::SIGKILL);
    assert!(wait_until(LIMIT, || !site.destination.is_alive()), "it lives");
    site.destination = again(&site);
    let ran = running.end(LIMIT).expect(0);
    assert!(ran.number("attempts") > 1 && ran.stdout.contains("link-lost"), "{}", ran.stdout);
    site.is_there();
}

/// A week is a while: here a guest stays for a few seconds, and the copy takes five times as long at its rate.
#[test]
fn a_copy_that_takes_longer_than_a_guest_may_stay_goes_on_with_another_one() {
    const BYTES: usize = 24 << 20;
    for acts in [Acts::Destination, Acts::Source] {
        let site = Site::start(&acts);
        std::fs::write(site.from.path("data/large"), noise(7, BYTES)).unwrap();
        let places = Places::default();
        let typed = [site.source.place("data", "large"), site.destination.place("in", "")];
        let asked = Asked::read_either(&typed.map(OsString::from), None, &places).unwrap();
        let daemons = asked.between_daemons("cp").unwrap().expect("two daemons").with_guests_for(3);
        let ticket = site.ticket("from");
        let how = How::to_ask(&places, Some(ticket.as_path()), SshOptions::default());
        let mut wishes = Wishes {
            remembered: Remembered { no_profile: true, ..Remembered::default() },
            ..Wishes::default()
        };
        wishes.movement.asked.chunk_bytes = Some(256 << 10);
        wishes.movement.rate = Arc::new(Rate::new(Some(1_500_000)));
        // A machine that is held up comes less far with each guest.
        wishes.movement.link.patience = LIMIT;
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        let hows = (&how, Some(site.ticket("to")));
        let state = site.here.path("state");
        let report = daemons.run(&wishes, hows, false, &state, &watch, &Stop::default()).unwrap();
        assert!(report.attempts > 1, "{} attempts", report.attempts);
        assert!(std::fs::read(site.to.path("in/large")).unwrap() == noise(7, BYTES), "it is another");
        assert_no_litter(&site.to.path("in"));
        let other = if matches!(acts, Acts::Source) { &site.to } else { &site.from };
        assert!(!logged(other, "did so too long ago").is_empty(), "{}", other.server_log());
    }
}

#[test]
fn a_ticket_that_is_revoked_ends_the_copy_that_a_guest_makes_with_it() {
    let site = Site::start(&Acts::Destination);
    site.large();
    let state = site.from.path("server-state");
    let of_ticket = |words: &[&str]| {
        let command = with(with(with(site.from.thalweg(), ["ticket"]), words), ["--state"]);
        let out = with(command, [&state]).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    let ticket = site.ticket("from");
    std::fs::remove_file(&ticket).unwrap();
    of_ticket(&["new", "alice", "--export", "data:ro", "-o", ticket.to_str().unwrap()]);
    let running = site.command("cp", &SLOW, "large", "");
    site.moves();
    let begun = logged(&site.from, "transfer begins");
    assert!(begun.iter().any(|line| line.to_string().contains("alice, by ")), "{begun:?}");
    of_ticket(&["revoke", "alice"]);
    let ran = running.end(LIMIT);
    assert!(ran.code != Some(0) && ran.stderr.contains("ticket"), "{ran:?}");
    assert!(!site.to.path("in/large").exists());
    // For itself, and not as one whose voucher is gone: guests are looked at first.
    let is_its_own = |line: &serde_json::Value| {
        let line = line.to_string();
        line.contains("alice, by ") && line.contains("was revoked")
    };
    let ended = || logged(&site.from, "session ended").iter().any(is_its_own);
    assert!(wait_until(LIMIT, ended), "{}", site.from.server_log());
}

#[test]
fn a_guest_does_nothing_but_its_copy_and_ends_with_who_vouched_for_it() {
    let site = Site::start(&Acts::Nobody);
    for name in ["x", "y"] {
        std::fs::write(site.from.path("data").join(name), b"x").unwrap();
    }
    let (address, ticket) = (site.source.address(), site.ticket("from"));
    let place = |path: &[u8]| Place { export: Some("data".to_owned()), path: path.to_vec() };
    let pull = |path: &[u8]| Request::Pull(Pull::of(vec![place(path)]));
    let deed = Open::of(TransferNumber(1), pull(b"x"), terms()).deed().unwrap();
    let guest = Identity::generate("guest").unwrap();
    let mut alice = HostileClient::begin(&ticket, &address);
    let mut vouch = |certificate: [u8; 32], places: Vec<Place>| {
        let (write, seconds, at) = (false, 60, "a:8487".to_owned());
        let question = Question::Vouch(Vouch { certificate, places, write, deed, seconds, at });
        ended(&mut alice, question)
    };
    assert_eq!(vouch(guest.fingerprint().0, vec![place(b"x")]), None);
    // Nobody takes somebody's ticket from him so, and nobody comes twice.
    let owner = Ticket::read(&ticket).unwrap();
    let owner = owner.identity().unwrap().fingerprint().0;
    for known in [owner, guest.fingerprint().0] {
        assert!(vouch(known, vec![place(b"x")]).is_some_and(|why| why.contains("let in already")));
    }
    let elsewhere = Place { export: Some("none".to_owned()), path: Vec::new() };
    assert!(vouch([9; 32], vec![elsewhere]).is_some_and(|why| why.contains("no export")));

    let server = Ticket::read(&ticket).unwrap().server;
    let mut comes = HostileClient::begin_as(guest, server, &address);
    let mut number = 0;
    let mut asks = |comes: &mut HostileClient, request: Request, removes: bool| {
        number += 1;
        let mut terms = terms();
        terms.removes_source = removes;
        comes.open(Open::of(TransferNumber(number), request, terms))
    };
    let follows = Request::Pull(Pull { follow_links: true, ..Pull::of(vec![place(b"x")]) });
    let both = Request::Pull(Pull::of(vec![place(b"x"), place(b"y")]));
    let push = Request::Push(Push::to(place(b"x")));
    let rule = FilterRule { include: false, pattern: "y".to_owned() };
    let chosen = Request::Pull(Pull { filter: vec![rule], ..Pull::of(vec![place(b"x")]) });
    for request in [pull(b"y"), pull(b""), pull(b"x/"), follows, chosen, both, push] {
        let refused = asks(&mut comes, request.clone(), false).expect_err("it is none of its");
        assert!(refused.contains("a guest is let in for one copy"), "{request:?}: {refused}");
    }
    assert!(asks(&mut comes, pull(b"x"), true).is_err(), "no guest removes");
    let list = Question::List { place: place(b""), recursive: true, follow_links: false, after: None };
    assert!(ended(&mut comes, list).is_some_and(|why| why.contains("a guest")));
    let vouches = Vouch {
        certificate: [8; 32],
        places: vec![place(b"x")],
        write: false,
        deed,
        seconds: 60,
        at: "a:8487".to_owned(),
    };
    assert!(ended(&mut comes, Question::Vouch(vouches)).is_some());
    asks(&mut comes, pull(b"x"), false).expect("its own");
    // It ends with the session of who vouched for it.
    alice.line.say(&Message::Goodbye(None));
    drop(alice);
    assert!(comes.line.is_ended(LIMIT), "it stays");
}

/// Asks what is answered by its end: why not, if so.
fn ended(client: &mut HostileClient, question: Question) -> Option<String> {
    client.line.say(&Message::Ask { number: 1, question });
    let end = client.line.hear_some(LIMIT, |message| match message {
        Message::Reply { number: 1, reply: Reply::End(why) } => Some(why),
        _ => None,
    });
    end.expect("an end").map(|why| why.to_string())
}
