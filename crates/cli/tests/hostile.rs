//! Hostile peers: authenticated, and lying. A client against the real daemon, a server against the real `thalweg cp`.
//!
//! After every lie: refused in time, the daemon lives, nothing outside of the root was touched, and an honest copy works.
//! Catalogue rows S-3, S-4, F-3, R-3, V-1, V-2.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::job::{Ran, Running, with};
use support::peer::*;
use support::{Daemon, Scratch, facts, noise, wait_until};
use thalweg_mover::link::{Identity, Ticket, resume_proof, stream_proof};
use thalweg_wire::frame::{Encoding, FrameKind, Inner, PackItem};
use thalweg_wire::hello::{Answer, Hello, Purpose, ServerHello};
use thalweg_wire::message::{
    AckLevel, Direction, Failure, FailureKind, Loss, Message, Open, Opened, Outcome, Place, Question, Reply,
    Run, ScanTotals, Seal, SourceForm, Totals, TransferMessage as T, TransferNumber, Want,
};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, limits};

/// A refusal comes at once; the machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A daemon with an export that can be written, one that cannot, and something outside of both.
struct World {
    scratch: Scratch,
    daemon: Daemon,
    outside: BTreeMap<Vec<u8>, String>,
    honest: u32,
}

impl World {
    fn new() -> World {
        let scratch = Scratch::new();
        for name in ["export", "readonly", "outside", "honest"] {
            std::fs::create_dir(scratch.path(name)).unwrap();
        }
        std::fs::write(scratch.path("outside/canary"), b"outside").unwrap();
        std::fs::write(scratch.path("readonly/secret"), b"read only").unwrap();
        std::fs::write(scratch.path("honest/large"), noise(1, 300_000)).unwrap();
        std::fs::write(scratch.path("honest/small"), b"small").unwrap();
        let read_only = scratch.path("readonly");
        let daemon = scratch.daemon_with(
            &[("data", &scratch.path("export"))],
            &["--patience", "5s", "--export", &format!("ro={}:ro", read_only.display())],
        );
        let outside = facts(&scratch.path("outside"));
        World { scratch, daemon, outside, honest: 0 }
    }

    fn client(&self) -> HostileClient {
        HostileClient::begin(&self.daemon.ticket, &self.daemon.address())
    }

    fn export(&self, name: &str) -> PathBuf {
        self.scratch.path("export").join(name)
    }

    /// Opens a push to a directory of its own, with a stream.
    fn pushing(&self, into: &str) -> (HostileClient, Stream) {
        let mut client = self.client();
        client.open_push("data", into);
        let stream = client.stream(0);
        (client, stream)
    }

    #[track_caller]
    fn is_unharmed(&mut self, words: &str) {
        assert!(self.daemon.is_alive(), "{words}: the daemon died\n{}", self.scratch.server_log());
        let log = self.scratch.server_log();
        assert!(!log.contains("panicked"), "{words}: a panic\n{log}");
        assert_eq!(
            facts(&self.scratch.path("outside")),
            self.outside,
            "{words}: something outside was touched"
        );
        let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(names(&self.scratch.path("readonly")), 1, "{words}: the read-only export was written");
        assert!(!self.scratch.path("planted").exists(), "{words}: planted beside the export");
    }

    #[track_caller]
    fn still_serves(&mut self, words: &str) {
        self.is_unharmed(words);
        self.honest += 1;
        let to = self.daemon.place("data", &format!("honest-{}/", self.honest));
        let job = with(self.scratch.thalweg(), ["cp", "--quiet", "--ticket"]);
        let job = with(with(job, [&self.daemon.ticket, &self.scratch.path("honest/")]), [to]);
        let ran = Running::start(job).end(Duration::from_secs(60));
        assert_eq!(
            ran.code,
            Some(0),
            "{words}: an honest copy failed\n{}\n{}",
            ran.stderr,
            self.scratch.server_log()
        );
        let there = self.export(&format!("honest-{}/large", self.honest));
        assert_eq!(std::fs::read(there).unwrap(), noise(1, 300_000), "{words}");
    }
}

/// Offers this, and waits until the receiver wants it.
#[track_caller]
fn offer_and_hear_want(client: &mut HostileClient, entries: Vec<Entry>) {
    let wanted = entries.last().unwrap().id;
    client.line.tell(T::Offer(entries));
    let want = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Want(items)) => items.into_iter().find(|(id, _)| *id == wanted),
        _ => None,
    });
    assert!(want.is_some(), "entry {wanted:?} is not wanted");
}

// Client against daemon.

#[test]
fn a_message_of_a_wrong_length_or_of_garbage_ends_its_session_and_no_other() {
    let mut world = World::new();
    let lengths: [(&str, Vec<u8>); 4] = [
        ("length 0", vec![0; 4]),
        ("length 4 GiB - 1", vec![0xff; 4]),
        ("a byte above the limit", (limits::MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes().to_vec()),
        ("2 GiB", vec![0x80, 0, 0, 0, 1, 2, 3]),
    ];
    for (words, bytes) in lengths {
        let mut client = world.client();
        client.line.say_raw(&bytes);
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    let mut bodies: Vec<(String, Vec<u8>)> = vec![
        ("unknown message".into(), vec![200]),
        ("unknown message of a transfer".into(), vec![6, 1, 99]),
        ("unknown question".into(), vec![2, 1, 77]),
        ("a number that does not end".into(), vec![0xff; 64]),
        ("an offer of 2^63 entries".into(), [&[6, 1, 0][..], &[0xff; 9], &[0x7f]].concat()),
        ("all the limit allows".into(), vec![0xff; limits::MESSAGE_BYTES_MAX]),
        ("bytes behind a message".into(), [&Message::Goodbye(None).encode().unwrap()[4..], b"more"].concat()),
        (
            "what only a server says".into(),
            Message::Opened(Opened { transfer: ONE, source: SourceForm::Many, instance: 1, refused: None })
                .encode()
                .unwrap()[4..]
                .to_vec(),
        ),
    ];
    for seed in 0..20 {
        bodies.push((format!("garbage {seed}"), noise(seed, 1 + seed as usize * 40)));
    }
    for (words, body) in bodies {
        let mut client = world.client();
        client.line.say_body(&body);
        // Some garbage is a message; then the next is not.
        client.line.say_body(&[0xff; 40]);
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(&words);
    }
    world.still_serves("after garbage");
}

#[test]
fn an_open_of_absurd_terms_or_places_is_refused() {
    let mut world = World::new();
    let with_terms = |change: fn(&mut Open)| {
        let mut open = push("data", "into");
        change(&mut open);
        open
    };
    for (words, open) in [
        ("chunk of 3", with_terms(|open| open.terms.chunk_bytes = 3)),
        ("chunk of 0", with_terms(|open| open.terms.chunk_bytes = 0)),
        ("chunk of 2^63", with_terms(|open| open.terms.chunk_bytes = 1 << 63)),
        ("segment above chunk", with_terms(|open| open.terms.segment_bytes = 1 << 20)),
        ("segment of 1", with_terms(|open| open.terms.segment_bytes = 1)),
        ("concurrency of 0", with_terms(|open| open.terms.concurrency = Some(0))),
        ("concurrency of 2^32 - 1", with_terms(|open| open.terms.concurrency = Some(u32::MAX))),
        ("depth of 0", with_terms(|open| open.terms.depth = Some(0))),
        ("depth of 2^32 - 1", with_terms(|open| open.terms.depth = Some(u32::MAX))),
        ("window of 1", with_terms(|open| open.terms.window_bytes = Some(1))),
        ("window of 2^63", with_terms(|open| open.terms.window_bytes = Some(1 << 63))),
        ("congestion without a name", with_terms(|open| open.terms.congestion = Some(String::new()))),
        ("congestion as a path", with_terms(|open| open.terms.congestion = Some("../cubic".into()))),
        ("no place", with_terms(|open| open.places.clear())),
        (
            "a name with a slash",
            with_terms(|open| open.source = SourceForm::Single { name: b"a/b".to_vec() }),
        ),
        ("a name of dots", with_terms(|open| open.source = SourceForm::Single { name: b"..".to_vec() })),
    ] {
        let mut client = world.client();
        client.line.say(&Message::Open(Box::new(open)));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    let elsewhere = |export: Option<&str>, path: &[u8]| Open {
        places: vec![Place { export: export.map(str::to_owned), path: path.to_vec() }],
        ..push("data", "")
    };
    let mut client = world.client();
    for (number, open) in [
        elsewhere(Some("data"), b".."),
        elsewhere(Some("data"), b"a/../../planted"),
        elsewhere(Some("data"), b"nul\0"),
        elsewhere(Some("nothing"), b"x"),
        elsewhere(Some(""), b"x"),
        elsewhere(Some("../outside"), b"x"),
        elsewhere(None, b"/tmp"),
        elsewhere(Some("ro"), b"x"),
        elsewhere(Some("ro"), b""),
        Open { direction: Direction::Pull, ..elsewhere(Some("data"), b"../outside/canary") },
        Open { direction: Direction::Pull, ..elsewhere(None, b"/etc/passwd") },
        Open { direction: Direction::Pull, ..elsewhere(Some("ro"), b"absent") },
    ]
    .into_iter()
    .enumerate()
    {
        let open = Open { transfer: TransferNumber(number as u16 + 1), ..open };
        let refused = client.open(open.clone()).expect_err("refused");
        assert!(!refused.contains("outside") && !refused.contains("goodbye"), "{open:?}: {refused}");
        world.is_unharmed(&refused);
    }
    // An absolute place is below its export like any other.
    client.open(Open { transfer: TransferNumber(50), ..push("data", "/absolute/place") }).expect("inside");
    assert!(world.export("absolute/place").is_dir());
    world.still_serves("after absurd opens");
}

#[test]
fn a_denied_place_and_an_absent_one_cannot_be_told_apart() {
    let world = World::new();
    std::os::unix::fs::symlink(world.scratch.path("outside"), world.export("link")).unwrap();
    let mut client = world.client();
    let mut number = 10;
    let mut answer = |path: &str| {
        number += 1;
        let open = Open { transfer: TransferNumber(number), ..pull("data", path) };
        client.open(open).expect_err("refused").replace(path, "PATH")
    };
    let there = answer("link/canary");
    let absent = answer("link/absent");
    assert_eq!(there, absent);
}

#[test]
fn ten_thousand_opens_cost_their_sender_the_session_and_the_daemon_nothing() {
    let mut world = World::new();
    std::fs::write(world.export("x"), b"x").unwrap();
    let fds = || std::fs::read_dir(format!("/proc/{}/fd", world.daemon.pid())).unwrap().count();
    let before = fds();
    for direction in [Direction::Push, Direction::Pull] {
        let mut client = world.client();
        for number in 0..10_000u16 {
            let path = if direction == Direction::Push { format!("many-{number}") } else { "x".into() };
            let mut open = Open { transfer: TransferNumber(number), direction, ..push("data", &path) };
            open.terms.job_key[..2].copy_from_slice(&number.to_le_bytes());
            if !client.line.say(&Message::Open(Box::new(open))) {
                break;
            }
        }
        let _ = client.line.is_ended(Duration::from_secs(3));
        drop(client);
        let made = std::fs::read_dir(world.scratch.path("export")).unwrap().count();
        assert!(made < 200, "{made} directories made");
    }
    // The same number twice, and many places in one.
    let mut client = world.client();
    client.open(push("data", "once")).expect("the first");
    client
        .open(Open {
            terms: thalweg_wire::message::Terms { job_key: [8; 16], ..terms() },
            ..push("data", "twice")
        })
        .expect_err("the number is taken");
    drop(client);
    let mut client = world.client();
    let places = vec![Place { export: Some("data".into()), path: b"x".to_vec() }; limits::MESSAGE_ITEMS_MAX];
    let _ = client.open(Open { places, ..pull("data", "") });
    drop(client);
    world.still_serves("after many opens");
    let fds = || std::fs::read_dir(format!("/proc/{}/fd", world.daemon.pid())).unwrap().count();
    let is_back = wait_until(Duration::from_secs(60), || fds() <= before + 40);
    let open = || {
        let links = std::fs::read_dir(format!("/proc/{}/fd", world.daemon.pid())).unwrap();
        links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok()).collect::<Vec<_>>()
    };
    assert!(is_back, "{} descriptors, {before} before: {:?}\n{}", fds(), open(), world.scratch.server_log());
}

#[test]
fn clients_that_come_and_go_do_not_use_up_the_sessions() {
    let mut world = World::new();
    for _ in 0..300 {
        // Cut in the middle, and with garbage.
        let ticket = Ticket::read(&world.daemon.ticket).unwrap();
        let Ok(mut client) = std::panic::catch_unwind(|| {
            HostileClient::begin_as(ticket.identity().unwrap(), ticket.server, &world.daemon.address())
        }) else {
            break;
        };
        client.line.say_body(&[0xff; 8]);
        client.line.is_ended(AT_ONCE);
    }
    world.still_serves("after 300 sessions that ended badly");
}

/// A number is used once: what is on its way to a transfer that is over shall not reach another.
#[test]
fn the_number_of_a_transfer_is_not_used_twice_and_what_is_said_to_one_that_is_over_is_nothing() {
    let mut world = World::new();
    let mut client = world.client();
    let absent = Open { direction: Direction::Pull, ..push("data", "absent") };
    client.open(absent).expect_err("refused");
    for _ in 0..100 {
        client.line.tell(T::Withdraw(vec![(EntryId(0), None)]));
    }
    let again = client.open(push("data", "again")).expect_err("its number was used");
    assert!(again.contains("used before"), "{again}");
    client.open(Open { transfer: TransferNumber(2), ..push("data", "again") }).expect("another number");
    world.is_unharmed("after a number was used twice");
}

/// More of an answer than the client has room for is not said, and what is not wanted is not said to the end.
#[test]
fn a_client_that_takes_nothing_of_an_answer_costs_the_daemon_nothing() {
    let mut world = World::new();
    std::fs::write(world.export("large"), noise(3, 24 << 20)).unwrap();
    let mut client = world.client();
    let place = Place { export: Some("data".into()), path: b"large".to_vec() };
    let ask = |number| Message::Ask {
        number,
        question: Question::Read { place: place.clone(), offset: 0, bytes: 0 },
    };
    client.line.say(&ask(1));
    let mut pieces = 0;
    while let Heard::Message(Message::Reply { number: 1, .. }) = client.line.hear(Duration::from_secs(2)) {
        pieces += 1;
    }
    assert_eq!(pieces, limits::REPLIES_AHEAD_MAX);
    client.line.say(&Message::Enough { number: 1 });
    let ended = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Reply { number: 1, reply: Reply::End(Some(_)) } => Some(()),
        _ => None,
    });
    assert!(ended.is_some(), "the answer ends");
    client.line.say(&ask(2));
    client.line.say(&ask(2));
    assert!(client.line.is_ended(AT_ONCE), "two questions of one number");
    world.still_serves("after questions that nobody heard");
}

#[test]
fn what_is_said_to_transfers_that_are_not_open_is_not_kept_for_ever() {
    let mut world = World::new();
    let mut client = world.client();
    let entries: Vec<Entry> = (0..1000).map(|id| file(id, &"n".repeat(200), 5)).collect();
    let message = |number| Message::Transfer(TransferNumber(number), T::Offer(entries.clone()));
    let mut said = 0u64;
    for number in 0..2000u16 {
        let bytes = message(number).encode().unwrap();
        if !client.line.say_raw(&bytes) {
            break;
        }
        said += bytes.len() as u64;
    }
    let resident = resident_bytes(world.daemon.pid());
    let ended = client.line.is_ended(AT_ONCE);
    println!("{said} bytes said early, {resident} resident, ended: {ended}");
    assert!(ended, "{said} bytes for transfers that are not open were taken");
    assert!(resident < 300 << 20, "{resident} bytes resident");
    world.still_serves("after early messages");
}

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn an_offer_whose_name_could_leave_the_root_is_not_even_decoded() {
    let mut world = World::new();
    let long = "n".repeat(256);
    for raw in [
        &b".."[..],
        b"../planted",
        b"a/../../planted",
        b"/etc/planted",
        b"/",
        b"a//b",
        b"a/",
        b".",
        b"a/./b",
        b"nul\0",
        b"\0",
        b"",
        long.as_bytes(),
    ] {
        let mut client = world.client();
        client.open_push("data", "into");
        if raw.len() < 128 {
            client.line.say_body(&offer_of_raw_path(raw));
        } else {
            client.line.say_body(&[0xff; 64]);
        }
        assert!(client.line.is_ended(AT_ONCE), "{}", thalweg_wire::path::Escaped(raw));
        world.is_unharmed("a name");
    }
    // What decodes, and is no entry.
    let odd: [(&str, Entry); 8] = [
        ("size of 2^63", file(0, "x", 1 << 63)),
        (
            "nanoseconds",
            Entry {
                evidence: Evidence {
                    mtime: thalweg_wire::Time { seconds: 0, nanos: u32::MAX },
                    ..Evidence::default()
                },
                ..file(0, "x", 0)
            },
        ),
        ("mode", Entry { mode: 0o100644, ..file(0, "x", 0) }),
        ("an empty target", symlink(0, "x", "")),
        ("a target with NUL", symlink(0, "x", "a\0b")),
        (
            "a hard link to the root",
            entry(0, "x", Kind::HardLink { first: thalweg_wire::RelativePath::root(), of: EntryId(0) }, 0),
        ),
        ("the root as a file", Entry { path: thalweg_wire::RelativePath::root(), ..file(0, "x", 0) }),
        (
            "an attribute without a name",
            Entry {
                xattrs: vec![thalweg_wire::entry::Xattr { name: vec![], value: vec![] }],
                ..file(0, "x", 0)
            },
        ),
    ];
    for (words, entry) in odd {
        let mut client = world.client();
        client.open_push("data", "into");
        client.line.tell(T::Offer(vec![entry]));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    world.still_serves("after names");
}

#[test]
fn entry_numbers_that_jump_repeat_or_never_end_are_refused() {
    let mut world = World::new();
    for (words, first, second) in [
        ("jumps", file(0, "a", 5), file(1 << 60, "b", 5)),
        ("the last number", file(0, "a", 5), file(u64::MAX, "b", 5)),
        ("again with other content", file(3, "a", 5), file(3, "other", 5)),
        ("a number passed by", file(3, "a", 5), file(1, "b", 5)),
    ] {
        let mut client = world.client();
        client.open_push("data", "into");
        client.line.tell(T::Offer(vec![first]));
        client.line.tell(T::Offer(vec![second]));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    let mut client = world.client();
    client.open_push("data", "window");
    let mut id = 0;
    let until = Instant::now() + Duration::from_secs(60);
    // Files whose content never comes: more than any sender may have unsettled.
    while id < 2 * limits::ENTRIES_IN_FLIGHT_MAX as u64 && Instant::now() < until {
        let entries = (0..512).map(|more| file(id + more, &format!("f{}", id + more), 5)).collect();
        if !client.line.tell(T::Offer(entries)) {
            break;
        }
        id += 512;
    }
    assert!(client.line.is_ended(Duration::from_secs(30)), "{id} entries offered at once");
    let resident = resident_bytes(world.daemon.pid());
    assert!(resident < 512 << 20, "{resident} bytes resident");
    world.still_serves("after too many entries");
}

#[test]
fn a_file_is_not_written_through_a_link_that_came_before_it() {
    let mut world = World::new();
    let outside = world.scratch.path("outside").display().to_string();
    let (mut client, mut stream) = world.pushing("links");
    for (id, target) in [outside.as_str(), "../../outside", "..", "/"].into_iter().enumerate() {
        let (id, name) = (id as u64 * 10, format!("link{id}"));
        client.line.tell(T::Offer(vec![symlink(id, &name, target)]));
        let made = client.line.outcome_of(id, AT_ONCE);
        assert!(matches!(made, Some(Outcome::Done { .. })), "{made:?}");
        let through = vec![
            file(id + 1, &format!("{name}/planted"), 7),
            directory(id + 2, &format!("{name}/planted-dir")),
            symlink(id + 3, &format!("{name}/planted-link"), "x"),
            file(id + 4, &format!("{name}/canary"), 7),
            entry(id + 5, &format!("{name}/hard"), Kind::HardLink { first: path(&name), of: EntryId(id) }, 0),
            entry(
                id + 6,
                &format!("hard-{id}"),
                Kind::HardLink { first: path(&format!("{name}/canary")), of: EntryId(id) },
                0,
            ),
        ];
        for entry in through {
            let number = entry.id.0;
            client.line.tell(T::Offer(vec![entry]));
            let outcome = client.line.outcome_of(number, AT_ONCE);
            assert!(matches!(outcome, Some(Outcome::Failed(_))), "{target} {number}: {outcome:?}");
        }
        world.is_unharmed(target);
    }
    // A file that becomes a directory's place, and the link that takes a directory's.
    client.line.tell(T::Offer(vec![directory(90, "dir")]));
    assert!(matches!(client.line.outcome_of(90, AT_ONCE), Some(Outcome::Done { .. })));
    client.line.tell(T::Offer(vec![symlink(91, "dir", &outside), file(92, "dir/planted", 7)]));
    stream.segment(92, 0, b"planted", 7);
    let _ = client.line.outcome_of(92, Duration::from_secs(3));
    world.is_unharmed("a directory that became a link");
    drop(client);
    world.still_serves("after links");
}

#[test]
fn devices_and_pipes_that_nobody_asked_for_are_not_made() {
    let mut world = World::new();
    let (mut client, _stream) = world.pushing("devices");
    let kinds = [
        Kind::Device { block: false, major: 1, minor: 3 },
        Kind::Device { block: true, major: 8, minor: 0 },
        Kind::Fifo,
    ];
    for (id, kind) in kinds.into_iter().enumerate() {
        client.line.tell(T::Offer(vec![entry(id as u64, &format!("node{id}"), kind, 0)]));
        let outcome = client.line.outcome_of(id as u64, AT_ONCE);
        assert!(matches!(outcome, Some(Outcome::Failed(_) | Outcome::Skipped(_))), "{outcome:?}");
        assert!(std::fs::symlink_metadata(world.export(&format!("devices/node{id}"))).is_err());
    }
    drop(client);
    world.still_serves("after devices");
}

#[test]
fn frames_that_fit_no_entry_end_the_session() {
    let mut world = World::new();
    let chunk = CHUNK as usize;
    let bytes = noise(5, 3 * chunk);
    type Case = (&'static str, Box<dyn Fn(&mut Stream) -> bool>);
    let cases: Vec<Case> = vec![
        ("never offered", Box::new(|s| s.send(segment(99, 0, 5, Digest([1; 32])), b"hello"))),
        ("the last number", Box::new(|s| s.send(segment(u64::MAX, 0, 5, Digest([1; 32])), b"hello"))),
        ("beyond the end", Box::new(|s| s.send(segment(0, 3 * CHUNK, 5, Digest([1; 32])), b"hello"))),
        (
            "far beyond the end",
            Box::new(|s| s.send(segment(0, (1 << 62) & !(CHUNK - 1), 5, Digest([1; 32])), b"hello")),
        ),
        ("not where segments begin", Box::new(|s| s.send(segment(0, 17, 5, Digest([1; 32])), b"hello"))),
        ("shorter than the segment", Box::new(|s| s.send(segment(0, 0, 5, Digest([1; 32])), b"hello"))),
        (
            "longer than the segment",
            Box::new(move |s| s.send(segment(0, 0, chunk + 999, Digest([1; 32])), &vec![0; chunk + 999])),
        ),
        ("empty", Box::new(|s| s.send(segment(0, 0, 0, Digest([1; 32])), b""))),
        (
            "zeros beyond the end",
            Box::new(|s| {
                s.send(
                    Inner { kind: FrameKind::Zeros, ..segment(0, 4 << 20, 4 << 20, Digest::default()) },
                    b"",
                )
            }),
        ),
        (
            "zeros of no segment",
            Box::new(|s| {
                s.send(Inner { kind: FrameKind::Zeros, ..segment(0, 1, 7, Digest::default()) }, b"")
            }),
        ),
        (
            "a pack that does not add up",
            Box::new(|s| {
                let item = PackItem { entry: EntryId(1), bytes: 500, digest: digest_of(b"five!") };
                let payload = [&b"five!"[..], &item.encode()].concat();
                s.send(
                    Inner {
                        kind: FrameKind::Pack,
                        entry: EntryId(1),
                        ..segment(0, 0, payload.len(), Digest::default())
                    },
                    &payload,
                )
            }),
        ),
        (
            "a pack of more files than it has",
            Box::new(|s| {
                s.send(
                    Inner {
                        kind: FrameKind::Pack,
                        entry: EntryId(4096),
                        ..segment(0, 0, 5, Digest::default())
                    },
                    b"five!",
                )
            }),
        ),
        (
            "a pack with bytes of nobody",
            Box::new(|s| {
                s.send(
                    Inner { kind: FrameKind::Pack, entry: EntryId(0), ..segment(0, 0, 5, Digest::default()) },
                    b"five!",
                )
            }),
        ),
        (
            "a packed file of another size",
            Box::new(|s| {
                let item = PackItem { entry: EntryId(1), bytes: 4, digest: digest_of(b"five") };
                let payload = [&b"five"[..], &item.encode()].concat();
                s.send(
                    Inner {
                        kind: FrameKind::Pack,
                        entry: EntryId(1),
                        ..segment(0, 0, payload.len(), Digest::default())
                    },
                    &payload,
                )
            }),
        ),
        (
            "a bomb",
            Box::new(move |s| {
                let bomb = zstd_bomb(8 << 20);
                s.send(Inner { encoding: Encoding::Zstd, ..segment(0, 0, chunk, Digest([1; 32])) }, &bomb)
            }),
        ),
        (
            "no zstd",
            Box::new(move |s| {
                s.send(Inner { encoding: Encoding::Zstd, ..segment(0, 0, chunk, Digest([1; 32])) }, b"none")
            }),
        ),
    ];
    for (words, lie) in cases {
        let (mut client, mut stream) = world.pushing("frames");
        offer_and_hear_want(&mut client, vec![file(0, "large", 3 * CHUNK), file(1, "small", 5)]);
        lie(&mut stream);
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
        assert!(!world.export("frames/large").exists(), "{words}");
        assert!(!world.export("frames/small").exists(), "{words}");
    }
    // A frame of a transfer that is not there is dropped, and one too long costs the stream; the session goes on.
    let (mut client, mut stream) = world.pushing("frames");
    offer_and_hear_want(&mut client, vec![file(0, "large", 3 * CHUNK)]);
    for number in [0, 2, u16::MAX] {
        stream
            .send(Inner { transfer: TransferNumber(number), ..segment(0, 0, 5, Digest([1; 32])) }, b"hello");
    }
    stream.send(segment(0, 0, 1 << 20, Digest([1; 32])), &vec![0; 1 << 20]);
    assert!(
        wait_until(AT_ONCE, || !stream.send(segment(0, 0, 5, Digest([1; 32])), b"hello")),
        "the stream goes on\n{}",
        world.scratch.server_log()
    );
    let mut stream = client.stream(1);
    for at in 0..3 {
        let range = at * chunk..(at + 1) * chunk;
        stream.segment(0, range.start as u64, &bytes[range], 3 * CHUNK);
    }
    let sealed = file(0, "large", 3 * CHUNK).evidence;
    client.line.tell(T::Seal(vec![(EntryId(0), Seal { evidence: sealed, digest: digest_of(&bytes) })]));
    let outcome = client.line.outcome_of(0, AT_ONCE);
    assert!(matches!(outcome, Some(Outcome::Done { .. })), "{outcome:?}");
    drop(client);
    world.still_serves("after frames");
}

/// One zstd frame that says so many zeros, in RLE blocks.
fn zstd_bomb(bytes: u32) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend_from_slice(&bytes.to_le_bytes());
    let blocks = bytes.div_ceil(128 << 10);
    for block in 1..=blocks {
        out.extend_from_slice(&rle_block(128 << 10, block == blocks));
    }
    out
}

fn rle_block(bytes: u32, is_last: bool) -> [u8; 4] {
    let head = (bytes << 3 | 1 << 1 | u32::from(is_last)).to_le_bytes();
    [head[0], head[1], head[2], 0]
}

#[test]
fn streams_that_break_again_and_again_leave_neither_threads_nor_sockets() {
    let mut world = World::new();
    let mut client = world.client();
    client.open_push("data", "broken");
    let count =
        |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", world.daemon.pid())).unwrap().count();
    let before = (count("task"), count("fd"));
    for _ in 0..60 {
        // Too long for any buffer there.
        client.stream(0).send(segment(0, 0, 1 << 20, Digest([1; 32])), &vec![0; 1 << 20]);
    }
    let is_back = wait_until(AT_ONCE, || count("task") <= before.0 + 10 && count("fd") <= before.1 + 10);
    assert!(is_back, "{} threads and {} descriptors, {before:?} before", count("task"), count("fd"));
    drop(client);
    world.still_serves("after broken streams");
}

#[test]
fn content_that_never_matches_its_digest_is_asked_for_a_bounded_number_of_times() {
    let mut world = World::new();
    for (name, size) in [("small", 5u64), ("large", 2 * CHUNK)] {
        let (mut client, mut stream) = world.pushing("damage");
        offer_and_hear_want(&mut client, vec![file(0, name, size)]);
        let lie = |stream: &mut Stream| {
            if size == 5 {
                let item = PackItem { entry: EntryId(0), bytes: 5, digest: Digest([3; 32]) };
                let payload = [&b"hello"[..], &item.encode()].concat();
                let inner = Inner {
                    kind: FrameKind::Pack,
                    entry: EntryId(1),
                    ..segment(0, 0, payload.len(), Digest::default())
                };
                stream.send(inner, &payload)
            } else {
                stream.send(segment(0, 0, CHUNK as usize, Digest([3; 32])), &vec![7; CHUNK as usize])
            }
        };
        lie(&mut stream);
        let mut repairs = 0;
        let outcome = client.line.hear_some(Duration::from_secs(30), |message| match message {
            Message::Transfer(_, T::Repair(_)) => {
                repairs += 1;
                lie(&mut stream);
                (repairs > 1000).then_some(None)
            }
            Message::Transfer(_, T::Settled(items)) => Some(Some(items[0].1.clone())),
            Message::Goodbye(why) => panic!("{why:?}"),
            _ => None,
        });
        match outcome {
            Some(Some(Outcome::Failed(failure))) => assert_eq!(failure.kind, FailureKind::Damage),
            other => panic!("{name}: {repairs} repairs, then {other:?}"),
        }
        assert!(repairs <= 200, "{repairs} repairs");
        assert!(!world.export(&format!("damage/{name}")).exists());
    }
    world.still_serves("after damage");
}

#[test]
fn a_seal_for_other_content_never_gives_a_name_to_it() {
    let mut world = World::new();
    let bytes = noise(6, 2 * CHUNK as usize);
    for (words, digest, inode) in [("digest", Digest([4; 32]), 1000), ("evidence", digest_of(&bytes), 5)] {
        let (mut client, mut stream) = world.pushing("seals");
        offer_and_hear_want(&mut client, vec![file(0, words, 2 * CHUNK)]);
        for (at, piece) in bytes.chunks(CHUNK as usize).enumerate() {
            stream.segment(0, at as u64 * CHUNK, piece, 2 * CHUNK);
        }
        let evidence = Evidence { inode, ..file(0, words, 2 * CHUNK).evidence };
        client.line.tell(T::Seal(vec![(EntryId(0), Seal { evidence, digest })]));
        let outcome = client.line.outcome_of(0, AT_ONCE);
        assert!(matches!(outcome, None | Some(Outcome::Failed(_))), "{words}: {outcome:?}");
        assert!(!world.export(&format!("seals/{words}")).exists(), "{words}");
        world.is_unharmed(words);
    }
    let (mut client, _stream) = world.pushing("seals");
    client
        .line
        .tell(T::Seal(vec![(EntryId(7), Seal { evidence: Evidence::default(), digest: Digest::default() })]));
    assert!(client.line.is_ended(AT_ONCE), "a seal of nothing");
    // Holes where there can be none, and so many that they do not fit into a number.
    let huge = limits::FILE_BYTES_MAX;
    let marked = |id| entry(id, &format!("huge{id}"), Kind::File { sparse: true, marked: true }, huge);
    for (words, runs) in [
        ("beyond the end", vec![(EntryId(0), Run { first: 0, count: 3 })]),
        ("far beyond the end", vec![(EntryId(0), Run { first: u64::MAX / 2, count: u64::MAX / 2 })]),
        ("empty", vec![(EntryId(0), Run { first: 0, count: 0 })]),
        ("never offered", vec![(EntryId(9), Run { first: 0, count: 1 })]),
    ] {
        let (mut client, _stream) = world.pushing("holes");
        offer_and_hear_want(&mut client, vec![file(0, "plain", 2 * CHUNK)]);
        client.line.tell(T::Holes(runs));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
    }
    let (mut client, _stream) = world.pushing("holes");
    client.line.tell(T::Offer((0..4).map(marked).collect()));
    for id in 0..4 {
        client.line.tell(T::Holes(vec![(EntryId(id), Run { first: 0, count: huge / CHUNK })]));
    }
    let _ = client.line.is_ended(Duration::from_secs(3));
    drop(client);
    world.still_serves("after seals");
}

#[test]
fn a_receiver_that_wants_what_is_not_there_loses_its_session() {
    let mut world = World::new();
    std::fs::create_dir(world.export("tree")).unwrap();
    std::fs::write(world.export("tree/large"), noise(8, 5 * CHUNK as usize)).unwrap();
    std::fs::write(world.export("tree/small"), b"five!").unwrap();
    type Lie = (&'static str, fn(EntryId, EntryId) -> Vec<T>);
    let lies: Vec<Lie> = vec![
        ("want beyond the end", |large, _| {
            vec![T::Want(vec![(large, Want::Missing(vec![Run { first: 5, count: 1 }]))])]
        }),
        ("want that overflows", |large, _| {
            vec![T::Want(vec![(large, Want::Missing(vec![Run { first: u64::MAX, count: 2 }]))])]
        }),
        ("want twice", |_, small| vec![T::Want(vec![(small, Want::Whole), (small, Want::Whole)])]),
        ("want of nothing", |_, _| vec![T::Want(vec![(EntryId(999), Want::Whole)])]),
        ("want to compare beyond the end", |large, _| {
            vec![T::Want(vec![(large, Want::Compare(vec![Run { first: 1 << 40, count: 1 }]))])]
        }),
        ("ack beyond the end", |large, _| {
            vec![T::Ack(AckLevel::Verified, vec![(large, Run { first: 4, count: 2 })])]
        }),
        ("ack of nothing", |_, _| {
            vec![T::Ack(AckLevel::Durable, vec![(EntryId(999), Run { first: 0, count: 1 })])]
        }),
        ("ack that overflows", |large, _| {
            vec![T::Ack(AckLevel::Durable, vec![(large, Run { first: u64::MAX - 1, count: 9 })])]
        }),
        ("repair beyond the end", |large, _| {
            vec![T::Want(vec![(large, Want::Whole)]), T::Repair(vec![(large, Run { first: 5, count: 1 })])]
        }),
        ("repair of what was not sent", |large, _| {
            vec![T::Repair(vec![(large, Run { first: 0, count: 1 })])]
        }),
        ("repair of nothing", |_, _| vec![T::Repair(vec![(EntryId(999), Run { first: 0, count: 1 })])]),
        ("digests beyond the end", |large, _| {
            vec![T::Have { entry: large, first: 4, digests: vec![Digest::default(); 2] }]
        }),
        ("digests at the end of numbers", |large, _| {
            vec![T::Have { entry: large, first: u64::MAX, digests: vec![Digest::default(); 2] }]
        }),
        ("finished too early", |_, _| vec![T::Finished(Totals::default())]),
        ("what only a sender says", |_, _| vec![T::OfferEnd(ScanTotals::default())]),
        ("an offer", |_, _| vec![T::Offer(vec![file(0, "x", 5)])]),
    ];
    for (words, lie) in lies {
        let mut client = world.client();
        let (large, small) = open_tree(&mut client);
        for message in lie(large, small) {
            client.line.tell(message);
        }
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    // An empty want is no want; digests of another file only make this one fail.
    let mut client = world.client();
    let (large, _) = open_tree(&mut client);
    client.line.tell(T::Want(vec![(large, Want::Missing(vec![Run { first: 2, count: 0 }]))]));
    world.is_unharmed("an empty want");
    drop(client);

    // For ever.
    let mut client = world.client();
    let (large, _) = open_tree(&mut client);
    let mut stream = client.stream(0);
    client.line.tell(T::Want(vec![(large, Want::Whole)]));
    std::thread::spawn(move || while stream.receive().is_some() {});
    for _ in 0..500 {
        if !client.line.tell(T::Repair(vec![(large, Run { first: 0, count: 5 })])) {
            break;
        }
    }
    let withdrawn = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Withdraw(items)) => {
            items.into_iter().find(|(id, why)| *id == large && why.is_some())
        }
        Message::Goodbye(_) => Some((large, None)),
        _ => None,
    });
    assert!(withdrawn.is_some(), "repaired without end");
    drop(client);
    world.still_serves("after a hostile receiver");
}

/// Opens a pull of `tree`; numbers of its two files.
#[track_caller]
fn open_tree(client: &mut HostileClient) -> (EntryId, EntryId) {
    client.open(pull("data", "tree/")).expect("a pull");
    let mut ids = BTreeMap::new();
    let found = client.line.hear_some(AT_ONCE, |message| {
        if let Message::Transfer(_, T::Offer(entries)) = message {
            ids.extend(entries.into_iter().map(|entry| (entry.path.to_string(), entry.id)));
        }
        Some((*ids.get("large")?, *ids.get("small")?))
    });
    found.expect("both files are offered")
}

#[test]
fn a_receipt_with_another_root_is_no_receipt() {
    let mut world = World::new();
    std::fs::write(world.export("one"), b"five!").unwrap();
    let server = HostileServer::new(&world.scratch, "unused");
    // As sender.
    let (mut client, mut stream) = world.pushing("receipts");
    offer_and_hear_want(&mut client, vec![file(0, "small", 5)]);
    let item = PackItem { entry: EntryId(0), bytes: 5, digest: digest_of(b"five!") };
    let payload = [&b"five!"[..], &item.encode()].concat();
    stream.send(
        Inner { kind: FrameKind::Pack, entry: EntryId(1), ..segment(0, 0, payload.len(), Digest::default()) },
        &payload,
    );
    client.line.tell(T::OfferEnd(ScanTotals { entries: 1, bytes: 5, failed: 0, complete: true }));
    let finished = client
        .line
        .hear_some(AT_ONCE, |message| matches!(message, Message::Transfer(_, T::Finished(_))).then_some(()));
    assert!(finished.is_some(), "not finished");
    client.line.tell(T::Receipt(server.receipt(&[], Totals::default())));
    let answered = client
        .line
        .hear_some(AT_ONCE, |message| matches!(message, Message::Transfer(_, T::Receipt(_))).then_some(()));
    assert!(answered.is_some(), "no statement");
    let told = wait_until(AT_ONCE, || {
        let log = world.scratch.server_log();
        log.contains("root") || log.contains("transfer failed")
    });
    println!("the daemon's log tells: {told}");
    drop(client);
    world.still_serves("after receipts");
}

#[test]
fn only_the_one_who_began_a_session_joins_it() {
    let mut world = World::new();
    let client = world.client();
    let other = world.client();
    let (session, key) = (client.line.session, client.line.key);
    let refused = |hello: Hello, mut connection: thalweg_mover::link::Connection, words: &str| {
        let failure = connection.hello(&hello, SOON).expect_err(words);
        assert_eq!(failure.kind, FailureKind::NotFound, "{words}: {failure}");
    };
    let hello = |purpose, stream, proof| Hello { session, stream, proof, ..Hello::new(purpose, CIPHER) };
    for purpose in [Purpose::Stream, Purpose::Resume] {
        refused(hello(purpose, 0, [0; 32]), client.dial(), "no proof");
        refused(hello(purpose, 0, [0x55; 32]), client.dial(), "a wrong proof");
        let connection = client.dial();
        let proof = stream_proof(&other.line.key, &connection, &session, 0).unwrap();
        refused(hello(purpose, 0, proof), connection, "the key of another session");
        let connection = client.dial();
        let proof = stream_proof(&key, &connection, &other.line.session, 0).unwrap();
        refused(hello(purpose, 0, proof), connection, "for another session");
        let connection = client.dial();
        let proof = stream_proof(&key, &client.dial(), &session, 0).unwrap();
        refused(hello(purpose, 0, proof), connection, "of another connection");
        let connection = client.dial();
        let proof = stream_proof(&key, &connection, &session, 1).unwrap();
        refused(hello(purpose, 0, proof), connection, "for another stream");
    }
    let connection = client.dial();
    let proof = stream_proof(&key, &connection, &session, 0).unwrap();
    refused(hello(Purpose::Resume, 0, proof), connection, "a stream's proof to resume");
    let connection = client.dial();
    let proof = resume_proof(&key, &connection, &session).unwrap();
    refused(hello(Purpose::Stream, 0, proof), connection, "a proof to resume for a stream");
    let connection = client.dial();
    let proof = stream_proof(&key, &connection, &[3; 16], 0).unwrap();
    refused(
        Hello { session: [3; 16], ..hello(Purpose::Stream, 0, proof) },
        connection,
        "a session that is not there",
    );
    // A stream number that no session has.
    let mut connection = client.dial();
    let proof = stream_proof(&key, &connection, &session, u16::MAX).unwrap();
    let _ = connection.hello(&hello(Purpose::Stream, u16::MAX, proof), SOON);
    let _ = client.stream(0);
    world.still_serves("after proofs");
}

/// Two clients that the server knows, which the daemon of today does not have: by the service itself.
#[test]
fn the_key_of_a_session_is_worth_nothing_under_another_certificate() {
    use thalweg_mover::link::ClientTrust;
    use thalweg_service::export::Exports;
    use thalweg_service::{accept, host};
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let new = |name: &str| Identity::generate(name).unwrap();
    let (server, one, two) = (new("server"), new("one"), new("two"));
    let trust = ClientTrust::default();
    trust.pinned.insert(one.fingerprint());
    trust.pinned.insert(two.fingerprint());
    let exports =
        Exports::open(vec![format!("data={}", scratch.path("export").display()).parse().unwrap()]).unwrap();
    let own = Identity::from_pem(&server.to_pem()).unwrap();
    let host = host::Host::new(own, exports, None, host::HostLimits::default());
    let listening = accept::listen(host, &server, &trust, &["127.0.0.1:0".into()]).unwrap();
    let address = listening.addresses[0].to_string();
    let first = HostileClient::begin_as(one, server.fingerprint(), &address);
    let second = HostileClient::begin_as(two, server.fingerprint(), &address);
    let (session, key) = (first.line.session, first.line.key);
    for (words, connection, is_right) in [("other", second.dial(), false), ("own", first.dial(), true)] {
        let mut connection = connection;
        let proof = stream_proof(&key, &connection, &session, 3).unwrap();
        let hello = Hello { session, stream: 3, proof, ..Hello::new(Purpose::Stream, CIPHER) };
        assert_eq!(connection.hello(&hello, SOON).is_ok(), is_right, "{words} certificate");
    }
    let mut connection = second.dial();
    let proof = proof_to_resume(&key, &connection, &session);
    let hello = Hello { session, proof, ..Hello::new(Purpose::Resume, CIPHER) };
    assert!(connection.hello(&hello, SOON).is_err(), "resumed by another");
    listening.stop();
}

// V: versions.

#[test]
fn a_client_of_another_version_is_told_which_ones_there_are() {
    let mut world = World::new();
    for versions in [(2, 2), (2, 9), (0, 0), (u16::MAX, u16::MAX), (9, 1)] {
        let client = world.client();
        let mut connection = client.dial();
        let hello = Hello { versions, ..Hello::new(Purpose::Control, CIPHER) };
        let since = Instant::now();
        let failure = connection.hello(&hello, SOON).expect_err("no version in common");
        assert!(since.elapsed() < AT_ONCE);
        assert_eq!(failure.kind, FailureKind::Protocol, "{failure}");
        assert!(failure.to_string().contains("update the older side"), "{failure}");
    }
    // A later version that also speaks ours, and whose hello has more in it than we know, if only at its place.
    let client = world.client();
    let mut connection = client.dial();
    let hello = Hello { versions: (1, 7), features: u64::MAX, ..Hello::new(Purpose::Control, CIPHER) };
    assert_eq!(connection.hello(&hello, SOON).expect("welcome").version, 1);
    let mut connection = client.dial();
    let mut bytes = Hello { versions: (2, 3), ..Hello::new(Purpose::Control, CIPHER) }.encode();
    bytes[12..].fill(0xee);
    connection.write_all(&bytes, SOON).unwrap();
    let mut answer = [0; thalweg_wire::hello::ANSWER_BYTES];
    connection.read_exact(&mut answer, SOON).unwrap();
    assert_eq!(ServerHello::decode(&answer).unwrap().answer, Answer::Version);
    world.still_serves("after other versions");
}

#[test]
fn a_server_of_another_version_ends_the_client_with_a_clear_sentence() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    type Case = (&'static str, u16, (u16, u16), Answer, &'static str);
    let cases: [Case; 7] = [
        ("one up", 0, (2, 2), Answer::Version, "update the older side"),
        ("one down", 0, (0, 0), Answer::Version, "update the older side"),
        ("says yes to version 0", 0, (1, 1), Answer::Accepted, "version"),
        ("says yes to version 2", 2, (1, 2), Answer::Accepted, "version"),
        ("versions stripped", 1, (2, 3), Answer::Accepted, "version"),
        ("no session", 1, (1, 1), Answer::Accepted, "session"),
        ("unknown session", 1, (1, 1), Answer::UnknownSession, "session"),
    ];
    for (words, version, versions, answer, sentence) in cases {
        let server = HostileServer::new(&scratch, "bad-ticket");
        let job = Running::start(cp(
            &scratch,
            &server,
            &[scratch.path("file").display().to_string(), server.place("x")],
        ));
        let mut connection = server.accept(SOON).expect("the client comes");
        connection.read_hello(SOON).expect("a hello");
        let session = if words == "no session" { [0; 16] } else { [9; 16] };
        let hello = ServerHello { version, versions, answer, cipher: CIPHER, features: 0, session };
        connection.answer(&hello, SOON).expect("answered");
        let ran = job.end(Duration::from_secs(20));
        assert_eq!(ran.code, Some(3), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains(sentence), "{words}: {}", ran.stderr);
        assert!(ran.took < Duration::from_secs(15), "{words}: {:?}", ran.took);
    }
    // Garbage for an answer.
    for seed in 0..5 {
        let server = HostileServer::new(&scratch, "bad-ticket");
        let job = Running::start(cp(
            &scratch,
            &server,
            &[scratch.path("file").display().to_string(), server.place("x")],
        ));
        let mut connection = server.accept(SOON).expect("the client comes");
        connection.read_hello(SOON).expect("a hello");
        connection.write_all(&noise(seed, 64), SOON).expect("answered");
        let ran = job.end(Duration::from_secs(20));
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    }
}

// Server against client.

fn cp(scratch: &Scratch, server: &HostileServer, args: &[String]) -> std::process::Command {
    let job = with(
        scratch.thalweg(),
        ["cp", "--streams", "1", "--stall-timeout", "2s", "--patience", "6s", "--chunk", "64KiB"],
    );
    with(with(with(job, ["--ticket"]), [&server.ticket]), args)
}

/// A pull of `x` to `to`, from a server that says this.
fn pull_from(
    scratch: &Scratch,
    to: &str,
    form: SourceForm,
    lie: impl FnOnce(&HostileServer, &mut Line),
) -> Ran {
    pull_with(scratch, &[], to, form, lie)
}

/// The same with more options.
fn pull_with(
    scratch: &Scratch,
    more: &[&str],
    to: &str,
    form: SourceForm,
    lie: impl FnOnce(&HostileServer, &mut Line),
) -> Ran {
    let server = HostileServer::new(scratch, "bad-ticket");
    let job = cp(scratch, &server, &[server.place("x"), scratch.path(to).display().to_string()]);
    let job = Running::start(with(job, more));
    let mut line = server.session().expect("the client comes");
    agree(&mut line, form).expect("an open");
    lie(&server, &mut line);
    drop(line);
    drop(server);
    job.end(Duration::from_secs(60))
}

/// Sends these files, each with content, and settles whatever way the client goes.
fn send_files(server: &HostileServer, line: &mut Line, entries: &[Entry]) {
    line.tell(T::Offer(entries.to_vec()));
    line.tell(T::OfferEnd(ScanTotals { entries: entries.len() as u64, bytes: 0, failed: 0, complete: true }));
    let Some(mut stream) = server.stream(Duration::from_secs(3)) else { return };
    let mut payload = Vec::new();
    let mut index = Vec::new();
    for entry in entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })) {
        let content = vec![b'!'; entry.evidence.size as usize];
        index.extend_from_slice(
            &PackItem { entry: entry.id, bytes: content.len() as u32, digest: digest_of(&content) }.encode(),
        );
        payload.extend_from_slice(&content);
    }
    let files = (index.len() / 48) as u64;
    payload.extend_from_slice(&index);
    std::thread::sleep(Duration::from_millis(300));
    stream.send(
        Inner {
            kind: FrameKind::Pack,
            entry: EntryId(files),
            ..segment(0, 0, payload.len(), Digest::default())
        },
        &payload,
    );
    line.is_ended(Duration::from_secs(3));
}

#[test]
fn a_pull_writes_only_what_it_asked_for() {
    let single = |name: &str| SourceForm::Single { name: name.as_bytes().to_vec() };
    type Case = (&'static str, SourceForm, Vec<Entry>);
    let cases: Vec<Case> = vec![
        ("one file under another name", single("planted"), vec![file(0, "planted", 7)]),
        ("the file and one more", single("x"), vec![file(0, "x", 7), file(1, "planted", 7)]),
        (
            "a file beside the directory",
            SourceForm::Many,
            vec![directory(0, "x"), file(1, "x/a", 7), file(2, "planted", 7)],
        ),
        ("another directory", SourceForm::Many, vec![directory(0, "planted"), file(1, "planted/a", 7)]),
        ("a link beside the file", single("x"), vec![symlink(0, "planted", "/"), file(1, "x", 7)]),
        (
            "the destination itself",
            SourceForm::Many,
            vec![Entry { mode: 0o777, path: thalweg_wire::RelativePath::root(), ..directory(0, "x") }],
        ),
    ];
    for (words, form, entries) in cases {
        for to in ["into/", "into/new-name"] {
            let scratch = Scratch::new();
            std::fs::create_dir(scratch.path("into")).unwrap();
            std::fs::set_permissions(
                scratch.path("into"),
                std::os::unix::fs::PermissionsExt::from_mode(0o700),
            )
            .unwrap();
            let ran =
                pull_from(&scratch, to, form.clone(), |server, line| send_files(server, line, &entries));
            assert_ne!(ran.code, Some(0), "{words} {to}: {}", ran.stderr);
            let names: Vec<String> = facts(&scratch.path("into"))
                .into_keys()
                .map(|name| String::from_utf8_lossy(&name).into_owned())
                .collect();
            let below_new_name = |name: &String| to == "into/new-name" && name.starts_with("new-name");
            let planted = names
                .iter()
                .any(|name| name.contains("planted") && !name.contains(".thalweg") && !below_new_name(name));
            assert!(!planted, "{words} {to}: {names:?}\n{}", ran.stderr);
            assert!(!names.iter().any(|name| name == "new-name/planted"), "{words} {to}: {names:?}");
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(scratch.path("into")).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{words} {to}: the destination's own mode");
        }
    }
}

/// The filter of a pull holds here too.
#[test]
fn a_pull_does_not_write_what_its_filter_leaves_out() {
    for (words, entries) in [
        ("an excluded file", vec![directory(0, "x"), file(1, "x/planted.o", 7)]),
        ("a file of an excluded directory", vec![directory(0, "x"), file(1, "x/out/planted", 7)]),
        ("an excluded directory", vec![directory(0, "x"), directory(1, "x/out")]),
    ] {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("into")).unwrap();
        let filter = ["--exclude", "*.o", "--exclude", "out/"];
        let ran = pull_with(&scratch, &filter, "into/", SourceForm::Many, |server, line| {
            send_files(server, line, &entries);
        });
        assert_ne!(ran.code, Some(0), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains("the filter leaves out"), "{words}: {}", ran.stderr);
        let names: Vec<String> = facts(&scratch.path("into"))
            .into_keys()
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect();
        let is_planted = |name: &String| name.ends_with("out") || name.contains("planted");
        assert!(
            !names.iter().any(|name| is_planted(name) && !name.contains(".thalweg")),
            "{words}: {names:?}"
        );
    }
}

#[test]
fn a_server_that_sends_names_links_and_devices_of_its_own_writes_nothing_outside() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("outside")).unwrap();
    std::fs::write(scratch.path("outside/canary"), b"outside").unwrap();
    let before = facts(&scratch.path("outside"));
    let outside = scratch.path("outside").display().to_string();
    let many = || SourceForm::Many;
    for (at, raw) in
        [&b"../planted"[..], b"/tmp/planted", b"x/../../planted", b"x//y", b"x\0"].into_iter().enumerate()
    {
        let ran = pull_from(&scratch, &format!("names-{at}"), many(), |_, line| {
            line.say_body(&offer_of_raw_path(raw));
            line.is_ended(Duration::from_secs(3));
        });
        assert!(matches!(ran.code, Some(2 | 3)), "{}", ran.stderr);
        assert!(!scratch.path("planted").exists());
    }
    let ran = pull_from(&scratch, "links", many(), |server, line| {
        let entries = [
            directory(0, "x"),
            symlink(1, "x/link", &outside),
            symlink(2, "x/up", "../../outside"),
            file(3, "x/link/planted", 7),
            file(4, "x/up/planted", 7),
            file(5, "x/link/canary", 7),
            entry(6, "x/null", Kind::Device { block: false, major: 1, minor: 3 }, 0),
            entry(7, "x/fifo", Kind::Fifo, 0),
        ];
        send_files(server, line, &entries);
    });
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(facts(&scratch.path("outside")), before);
    for name in ["links/x/null", "links/x/fifo"] {
        assert!(std::fs::symlink_metadata(scratch.path(name)).is_err(), "{name}");
    }
}

#[test]
fn a_receiver_that_lies_about_what_it_has_does_not_get_exit_0() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"five!").unwrap();
    std::fs::write(scratch.path("large"), noise(3, 5 * CHUNK as usize)).unwrap();
    type Lie = (&'static str, Vec<T>);
    let settled = |outcome| T::Settled(vec![(EntryId(0), outcome)]);
    let finished = || T::Finished(Totals { done: 1, ..Totals::default() });
    let lies: Vec<Lie> = vec![
        ("finished at once", vec![finished()]),
        (
            "want beyond the end",
            vec![T::Want(vec![(EntryId(0), Want::Missing(vec![Run { first: 77, count: 1 }]))])],
        ),
        ("want of nothing", vec![T::Want(vec![(EntryId(77), Want::Whole)])]),
        (
            "ack beyond the end",
            vec![T::Ack(AckLevel::Verified, vec![(EntryId(0), Run { first: 77, count: 1 })])],
        ),
        ("an offer", vec![T::Offer(vec![file(0, "planted", 5)])]),
        (
            "repair without end",
            (0..200).map(|_| T::Repair(vec![(EntryId(0), Run { first: 0, count: 1 })])).collect(),
        ),
        (
            "abort",
            vec![T::Abort(Failure::new(FailureKind::Internal, "write", "no\u{1b}[31m\u{9b}\u{7f}more"))],
        ),
        (
            "failed",
            vec![
                settled(Outcome::Failed(Failure::new(
                    FailureKind::Io,
                    "wr\u{1b}ite",
                    "\u{1b}]0;x\u{7}\u{85}",
                ))),
                finished(),
            ],
        ),
        ("no receipt", vec![settled(done(Some(digest_of(b"five!")))), finished()]),
        ("another digest", vec![settled(done(Some(Digest([9; 32])))), finished()]),
    ];
    for (words, lie) in lies {
        for name in ["file", "large"] {
            let server = HostileServer::new(&scratch, "bad-ticket");
            let source = scratch.path(name).display().to_string();
            let mut job = cp(&scratch, &server, &[source, server.place("x")]);
            job.args(["-vv"]);
            let job = Running::start(job);
            let mut line = server.session().expect("the client comes");
            agree(&mut line, SourceForm::Many).expect("an open");
            let offered = line.hear_some(SOON, |message| match message {
                Message::Transfer(_, T::Offer(entries)) => Some(entries[0].clone()),
                _ => None,
            });
            let offered = offered.expect("an offer");
            if words == "another digest" {
                // Only of what was sent can it be known.
                line.tell(T::Want(vec![(EntryId(0), Want::Whole)]));
                let mut stream = server.stream(SOON).expect("a stream");
                std::thread::spawn(move || while stream.receive().is_some() {});
                let _ = line.hear(Duration::from_secs(2));
                std::thread::sleep(Duration::from_millis(500));
            }
            for message in &lie {
                line.tell(message.clone());
            }
            // What comes after is answered as an honest receiver would, with a receipt over what was claimed.
            let claimed: Vec<(Entry, Outcome)> = lie
                .iter()
                .filter_map(|message| match message {
                    T::Settled(items) => Some((offered.clone(), items[0].1.clone())),
                    _ => None,
                })
                .collect();
            if words != "no receipt" {
                line.tell(T::Receipt(server.receipt(&claimed, Totals { done: 1, ..Totals::default() })));
            }
            line.is_ended(Duration::from_secs(3));
            drop(line);
            drop(server);
            let ran = job.end(Duration::from_secs(60));
            println!(
                "{words} {name}: {:?} after {:?}: {}",
                ran.code,
                ran.took,
                ran.stderr.lines().last().unwrap_or("")
            );
            assert_ne!(ran.code, Some(0), "{words} {name}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.took < Duration::from_secs(20), "{words} {name}: {:?}\n{}", ran.took, ran.stderr);
            assert_inert(&ran, words);
        }
    }
}

/// No byte that a terminal would act on.
#[track_caller]
fn assert_inert(ran: &Ran, words: &str) {
    for text in [&ran.stdout, &ran.stderr] {
        let bad = text.chars().find(|&c| c.is_control() && c != '\n');
        assert_eq!(bad, None, "{words}: {text:?}");
    }
}

#[test]
fn what_a_peer_says_in_words_is_inert_in_every_output() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"five!").unwrap();
    let evil = "\u{1b}]0;x\u{7}\u{9b}31m\u{7f}\r\u{202e}".to_owned();
    let outcomes = [
        Outcome::Done { digest: None, losses: vec![Loss { what: evil.clone(), why: evil.clone() }] },
        Outcome::Skipped(evil.clone()),
        Outcome::Failed(Failure::new(FailureKind::Permission, &evil, &evil)),
    ];
    for flags in [vec!["-vv"], vec!["--json"], vec!["-v", "-P"]] {
        for outcome in &outcomes {
            let server = HostileServer::new(&scratch, "bad-ticket");
            let mut job =
                cp(&scratch, &server, &[scratch.path("file").display().to_string(), server.place("x")]);
            job.args(&flags);
            let job = Running::start(job);
            let mut line = server.session().expect("the client comes");
            agree(&mut line, SourceForm::Many).expect("an open");
            line.hear_some(SOON, |message| {
                matches!(message, Message::Transfer(_, T::Offer(_))).then_some(())
            });
            line.tell(T::Settled(vec![(EntryId(0), outcome.clone())]));
            line.tell(T::Troubles(vec![(path("n\u{1b}ame\u{9b}"), outcome.clone())]));
            line.tell(T::Abort(Failure::new(FailureKind::Io, &evil, &evil)));
            line.is_ended(Duration::from_secs(2));
            drop((line, server));
            assert_inert(&job.end(Duration::from_secs(60)), &format!("{flags:?} {outcome:?}"));
        }
    }
    // Refused at the door.
    let server = HostileServer::new(&scratch, "bad-ticket");
    let job = Running::start(cp(
        &scratch,
        &server,
        &[scratch.path("file").display().to_string(), server.place("x")],
    ));
    let mut line = server.session().expect("the client comes");
    let open = line.hear_some(SOON, |message| match message {
        Message::Open(open) => Some(open),
        _ => None,
    });
    let refused = Some(Failure::new(FailureKind::NotFound, &evil, &evil));
    line.say(&Message::Opened(Opened {
        transfer: open.unwrap().transfer,
        source: SourceForm::Many,
        instance: 1,
        refused,
    }));
    let ran = job.end(Duration::from_secs(30));
    assert_eq!(ran.code, Some(3));
    assert_inert(&ran, "refused");
}

/// Where a server falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Tls,
    Hello,
    Opened,
    Stream,
    Want,
    Ack,
    Settle,
    Finish,
    Receipt,
    Never,
}

/// An honest receiver of one file until `stop`, then silent; with heartbeats or without.
fn receive_until(server: &HostileServer, stop: Step, beats: bool, ends: Instant) {
    if stop == Step::Tls {
        let mut held = Vec::new();
        while Instant::now() < ends {
            held.extend(server.accept_raw(Duration::from_millis(50)));
        }
        return;
    }
    let Some(mut connection) = server.accept(SOON) else { return };
    let Ok(_) = connection.read_hello(SOON) else { return };
    if stop == Step::Hello {
        std::thread::sleep(ends.saturating_duration_since(Instant::now()));
        return;
    }
    let answer = ServerHello {
        version: 1,
        versions: (1, 1),
        answer: Answer::Accepted,
        cipher: CIPHER,
        features: 0,
        session: [9; 16],
    };
    let key = connection.export_session_key().unwrap();
    connection.answer(&answer, SOON).unwrap();
    let mut line = Line { connection, session: [9; 16], key };
    let mut held = Vec::new();
    let mut entry = None;
    if stop > Step::Opened {
        agree(&mut line, SourceForm::Many).expect("an open");
    }
    if stop > Step::Stream {
        let mut stream = server.stream(SOON).expect("a stream");
        std::thread::spawn(move || while stream.receive().is_some() {});
        entry = line.hear_some(SOON, |message| match message {
            Message::Transfer(_, T::Offer(entries)) => Some(entries[0].clone()),
            _ => None,
        });
    }
    let (id, digest) = (EntryId(0), digest_of(b"five!"));
    let words = [
        (Step::Want, T::Want(vec![(id, Want::Whole)])),
        (Step::Ack, T::Ack(AckLevel::Verified, vec![(id, Run { first: 0, count: 1 })])),
        (Step::Settle, T::Settled(vec![(id, done(Some(digest)))])),
        (Step::Finish, T::Finished(Totals { done: 1, bytes_done: 5, ..Totals::default() })),
    ];
    for (step, word) in words {
        if stop > step {
            std::thread::sleep(Duration::from_millis(200));
            line.tell(word);
        }
    }
    if stop > Step::Receipt {
        let entry = entry.expect("an offer");
        line.tell(T::Receipt(server.receipt(&[(entry, done(Some(digest)))], Totals::default())));
    }
    // Silent from here on, to whoever dials as well.
    let mut beat_at = Instant::now();
    while Instant::now() < ends {
        if beats && beat_at <= Instant::now() {
            beat_at = Instant::now() + Duration::from_millis(500);
            if !line.say(&heartbeat()) && held.is_empty() {
                return;
            }
        }
        held.extend(server.accept_raw(Duration::from_millis(50)));
    }
}

#[test]
fn a_server_that_falls_silent_at_any_step_does_not_hold_its_client() {
    let steps = [
        Step::Tls,
        Step::Hello,
        Step::Opened,
        Step::Stream,
        Step::Want,
        Step::Ack,
        Step::Settle,
        Step::Finish,
        Step::Receipt,
        Step::Never,
    ];
    let told: Vec<String> = std::thread::scope(|scope| {
        let jobs: Vec<_> = steps
            .into_iter()
            .flat_map(|step| [(step, true), (step, false)])
            .map(|(step, beats)| {
                scope.spawn(move || {
                    let scratch = Scratch::new();
                    std::fs::write(scratch.path("file"), b"five!").unwrap();
                    let server = HostileServer::new(&scratch, "bad-ticket");
                    let source = scratch.path("file").display().to_string();
                    let job = Running::start(cp(&scratch, &server, &[source, server.place("x")]));
                    let ends = Instant::now() + Duration::from_secs(40);
                    let serving = std::thread::spawn(move || receive_until(&server, step, beats, ends));
                    let ran = job.end(Duration::from_secs(100));
                    drop(serving);
                    let want = if step == Step::Never { Some(0) } else { Some(3) };
                    // The patience, a dial, and what a busy machine takes.
                    let is_good = ran.code == want && ran.took < Duration::from_secs(18);
                    let line = format!(
                        "{step:?}, heartbeats {beats}: {:?} after {:.1} s: {}",
                        ran.code,
                        ran.took.as_secs_f64(),
                        ran.stderr.lines().last().unwrap_or("")
                    );
                    if is_good { line } else { format!("WRONG {line}") }
                })
            })
            .collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    told.iter().for_each(|line| println!("{line}"));
    assert!(!told.iter().any(|line| line.starts_with("WRONG")), "{told:#?}");
}
