//! Clients that lie before there is a transfer, or about whose session it is; versions that differ.

use super::*;
use crate::support::canary::{leaves_no_core_dump, with_core_dumps};

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
            Message::Opened(ONE, Opened::Push { is_ephemeral: false }).encode().unwrap()[4..].to_vec(),
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

/// Whoever finds a way to crash it gets its keys from none.
#[test]
fn a_daemon_that_crashes_leaves_no_core_dump() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("data")).unwrap();
    let data = scratch.path("data");
    let daemon =
        scratch.daemon_at("127.0.0.1:0", &[("data", &data)], &[], |command| with_core_dumps(&command));
    assert!(leaves_no_core_dump(daemon.pid()));
}

/// Somebody may hold the ticket of a daemon elsewhere, and know the certificate of this one.
#[test]
fn who_has_the_key_of_another_daemon_s_clients_does_not_get_in() {
    use std::os::unix::fs::PermissionsExt;
    let (here, elsewhere) = (Scratch::new(), Scratch::new());
    for scratch in [&here, &elsewhere] {
        std::fs::create_dir(scratch.path("data")).unwrap();
    }
    std::fs::write(here.path("file"), "content").unwrap();
    let daemon = here.daemon(&[("data", &here.path("data"))]);
    let other = elsewhere.daemon(&[("data", &elsewhere.path("data"))]);
    let [own, others] = [&daemon, &other].map(|of| std::fs::read_to_string(&of.ticket).unwrap());
    let (server, _) = own.split_once("identity = ").unwrap();
    let (_, key) = others.split_once("identity = ").unwrap();
    let copy = |ticket: &Path| {
        let job = with(here.thalweg(), ["cp", "--quiet", "--patience", "5s", "--ticket"]);
        let job = with(with(job, [ticket, &here.path("file")]), [daemon.place("data", "file")]);
        Running::start(job).end(Duration::from_secs(60))
    };
    for (words, text) in [("its ticket", others.clone()), ("its key", format!("{server}identity = {key}"))] {
        let ticket = here.path("wrong-ticket");
        std::fs::write(&ticket, text).unwrap();
        std::fs::set_permissions(&ticket, PermissionsExt::from_mode(0o600)).unwrap();
        let ran = copy(&ticket);
        assert!(ran.code.is_some_and(|code| code != 0), "{words}: {}", ran.stderr);
        assert!(!ran.stderr.contains("read ticket"), "{words} is one: {}", ran.stderr);
        assert_eq!(std::fs::read_dir(here.path("data")).unwrap().count(), 0, "{words}");
    }
    copy(&daemon.ticket).expect(0);
}

#[test]
fn an_open_of_absurd_terms_or_places_is_refused() {
    let mut world = World::new();
    let with_terms = |change: fn(&mut Open)| {
        let mut open = push("data", "into");
        change(&mut open);
        open
    };
    let named = |name: &[u8]| {
        let source = SourceForm::Single { name: name.to_vec() };
        asks(Request::Push(Push { source, ..Push::to(place("data", "into")) }))
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
        ("no place", asks(Request::Pull(Pull::of(Vec::new())))),
        ("places without number", asks(Request::Pull(Pull::of(vec![place("data", "into"); 1025])))),
        ("a name with a slash", named(b"a/b")),
        ("a name of dots", named(b"..")),
    ] {
        let mut client = world.client();
        client.line.say(&Message::Open(Box::new(open)));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    let at =
        |export: Option<&str>, path: &[u8]| Place { export: export.map(str::to_owned), path: path.to_vec() };
    let push_to = |export, path: &[u8]| asks(Request::Push(Push::to(at(export, path))));
    let pull_of = |export, path: &[u8]| asks(Request::Pull(Pull::of(vec![at(export, path)])));
    let mut client = world.client();
    for (number, open) in [
        push_to(Some("data"), b".."),
        push_to(Some("data"), b"a/../../planted"),
        push_to(Some("data"), b"nul\0"),
        push_to(Some("nothing"), b"x"),
        push_to(Some(""), b"x"),
        push_to(Some("../outside"), b"x"),
        push_to(None, b"/tmp"),
        push_to(Some("ro"), b"x"),
        push_to(Some("ro"), b""),
        pull_of(Some("data"), b"../outside/canary"),
        pull_of(None, b"/etc/passwd"),
        pull_of(Some("ro"), b"absent"),
    ]
    .into_iter()
    .enumerate()
    {
        let open = Open { transfer: TransferNumber(number as u16 + 1), ..open };
        let refused = client.open(open.clone()).expect_err("refused");
        // Its own words may come back to it.
        let place = &open.places()[0];
        let path = String::from_utf8_lossy(&place.path).into_owned();
        let own = [place.export.as_deref().unwrap_or_default(), path.as_str()];
        let refused =
            own.iter().filter(|own| !own.is_empty()).fold(refused, |said, own| said.replace(own, ""));
        assert!(!refused.contains("outside") && !refused.contains("goodbye"), "{open:?}: {refused}");
        world.is_unharmed(&refused);
    }
    // An absolute place is below its export like any other.
    client.open(Open { transfer: TransferNumber(50), ..push("data", "/absolute/place") }).expect("inside");
    assert!(world.export("absolute/place").is_dir());
    world.still_serves("after absurd opens");
}

#[test]
fn a_place_of_a_hundred_thousand_levels_is_refused_and_the_daemon_lives() {
    let mut world = World::new();
    let mut client = world.client();
    let deep = "a/".repeat(100_000);
    let mut dry_run = Open { transfer: TransferNumber(2), ..push("ro", &deep) };
    dry_run.terms.dry_run = true;
    for open in [push("data", &deep), dry_run] {
        let refused = client.open(open).expect_err("refused");
        assert!(refused.contains("levels"), "{refused}");
    }
    world.still_serves("after deep places");
}

/// Each stream would have a frame in memory before the client reads the first.
#[test]
fn a_pull_whose_frames_would_take_more_memory_than_a_link_has_is_refused() {
    let mut world = World::new();
    let mut client = world.client();
    let _streams: Vec<_> = (0..24).map(|number| client.stream(number)).collect();
    let noise = |number, segment_bytes| {
        let trial = Some(PullTrial::Noise { bytes: 1 << 40, file_bytes: 1 << 30 });
        let request = Request::Pull(Pull { trial, ..Pull::of(vec![place("data", "")]) });
        let terms = Terms { job_key: [7; 16], ..Terms::of(64 << 20, segment_bytes) };
        Open::of(TransferNumber(number), request, terms)
    };
    let refused = client.open(noise(1, 64 << 20)).expect_err("refused");
    assert!(refused.contains("more memory than a link has"), "{refused}");
    client.open(noise(2, 64 << 10)).expect("frames for which there is memory");
    drop(client);
    world.still_serves("after a pull of large frames");
}

/// What a link leads out to, what is not even there, and what would be inside: whatever is asked, each is told in the
/// same words. The kernel says another error for the last, which must not get through.
#[test]
fn a_denied_place_and_an_absent_one_cannot_be_told_apart() {
    let mut world = World::new();
    std::os::unix::fs::symlink(world.scratch.path("outside"), world.export("link")).unwrap();
    std::os::unix::fs::symlink("../outside", world.export("near")).unwrap();
    let mut client = world.client();
    let mut number = 10;
    let mut answers = |path: &str| {
        let mut told = Vec::new();
        number += 1;
        let open = Open { transfer: TransferNumber(number), ..pull("data", path) };
        told.push(client.open(open).expect_err("refused").replace(path, "PATH"));
        let place = || Place { export: Some("data".into()), path: path.as_bytes().to_vec() };
        let digest = |follow_links| Question::Digest {
            place: place(),
            chunk_bytes: 0,
            follow_links,
            after: None,
            part: None,
        };
        for question in [
            Question::List { place: place(), recursive: false, follow_links: false, after: None },
            Question::List { place: place(), recursive: true, follow_links: true, after: None },
            Question::Look { place: place(), follow: false },
            Question::Look { place: place(), follow: true },
            Question::Read { place: place(), offset: 0, bytes: 0, seen: None },
            digest(false),
            digest(true),
            Question::Remove { place: place(), recursive: true },
        ] {
            number += 1;
            let (asked, words) = (u32::from(number), format!("{question:?}"));
            client.line.say(&Message::Ask { number: asked, question });
            let end = client.line.hear_some(AT_ONCE, |message| match message {
                Message::Reply { number, reply: Reply::End(why) } if number == asked => Some(why),
                _ => None,
            });
            let refused = end.flatten().unwrap_or_else(|| panic!("{words}: no refusal"));
            told.push(format!("{:?}: {}", refused.kind, refused.to_string().replace(path, "PATH")));
        }
        told
    };
    let absent = answers("absent");
    for denied in ["link/canary", "link/absent", "near/canary", "near/absent"] {
        assert_eq!(answers(denied), absent, "{denied}");
    }
    world.is_unharmed("after questions about the outside");
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
            let open = match direction {
                Direction::Push => push("data", &format!("many-{number}")),
                Direction::Pull => pull("data", "x"),
            };
            let mut open = Open { transfer: TransferNumber(number), ..open };
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
    let places = vec![place("data", "x"); limits::MESSAGE_ITEMS_MAX];
    let _ = client.open(asks(Request::Pull(Pull::of(places))));
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
    for number in 0..300 {
        // Cut in the middle, and with garbage.
        let mut client = world.client();
        client.line.say_body(&[0xff; 8]);
        assert!(client.line.is_ended(AT_ONCE), "session {number}");
    }
    world.still_serves("after 300 sessions that ended badly");
}

/// It is not left to wait in vain.
#[test]
fn a_request_for_which_there_is_no_thread_is_refused_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let row = "requests without a thread";
    if !has("prlimit") {
        return skipped(row, "needs prlimit (package util-linux)");
    }
    let scratch = Scratch::in_memory();
    // Root is bound by no such limit.
    let mode = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    mode(scratch.root());
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    std::fs::create_dir(scratch.path("export")).unwrap();
    mode(&scratch.path("export"));
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &scratch.path("export"))], &[], &as_nobody);
    // A ticket of somebody else is not read.
    let ticket = scratch.path("own-ticket");
    std::fs::write(&ticket, std::fs::read(&daemon.ticket).unwrap()).unwrap();
    std::fs::set_permissions(&ticket, PermissionsExt::from_mode(0o600)).unwrap();
    let mut client = HostileClient::begin(&ticket, &daemon.address());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let processes = limits.lines().find_map(|line| line.strip_prefix("Max processes")).unwrap();
    let before = processes.split_whitespace().next().unwrap();
    let threads = |most: &str| {
        let mut set = std::process::Command::new("prlimit");
        set.args(["--pid", &daemon.pid().to_string(), &format!("--nproc={most}:")]);
        assert!(as_nobody(set).status().unwrap().success());
    };
    let ask = |client: &mut HostileClient| {
        // The same number each time: it is free again.
        client.line.say(&Message::Ask { number: 1, question: Question::About });
        client.line.hear_some(AT_ONCE, |message| match message {
            Message::Reply { number: 1, reply: Reply::End(why) } => Some(why),
            _ => None,
        })
    };
    assert_eq!(ask(&mut client), Some(None));
    threads("1");
    for _ in 0..100 {
        let refused = ask(&mut client).expect("an answer").expect("a refusal");
        assert_eq!(refused.kind, FailureKind::Busy, "{refused}");
    }
    let refused = client.open(push("data", "into")).expect_err("no thread");
    assert!(refused.contains("start a thread"), "{refused}");
    threads(before);
    assert_eq!(ask(&mut client), Some(None));
    client
        .open(Open { transfer: TransferNumber(2), ..push("data", "into") })
        .expect("there are threads again");
}

/// One address has half of all sessions and streams at most, with however many tickets, and somebody with one of them
/// at another address is served beside.
#[test]
fn one_address_cannot_take_all_sessions_or_streams_with_the_ticket_that_all_have() {
    use thalweg_service::sessions::HostLimits;
    let scratch = Scratch::new();
    let limits = HostLimits {
        sessions: 8,
        sessions_per_address: 4,
        streams: 10,
        streams_per_address: 5,
        ..HostLimits::default()
    };
    let (listening, one, two, server) = served(&scratch, limits);
    let address = listening.addresses[0].to_string();
    let pems = [one.to_pem(), two.to_pem()];
    let with = |ticket: usize, last| {
        let from = std::net::IpAddr::from([127, 0, 0, last]);
        let identity = Identity::from_pem(&pems[ticket]).unwrap();
        HostileClient::begin_from(identity, server.fingerprint(), &address, Some(from))
    };
    let from = |last| with(0, last);
    let held: Vec<_> = (0..4).map(|at| with(at % 2, 1)).collect();
    let refused = |mut connection: thalweg_mover::link::Connection, hello: Hello| {
        let failure = connection.hello(&hello, SOON).expect_err("one too many");
        assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
    };
    for one in &held[..2] {
        refused(one.dial(), Hello::new(Purpose::Control, CIPHER));
    }
    let other = from(2);
    let join = |client: &HostileClient, stream| {
        let (session, connection) = (client.line.session, client.dial());
        let proof = stream_proof(&client.line.key, &connection, &session, stream).unwrap();
        (connection, Hello { session, stream, proof, ..Hello::new(Purpose::Stream, CIPHER) })
    };
    let streams: Vec<_> = (0..5).map(|at| held[at % 4].stream(at as u16)).collect();
    for one in &held[..2] {
        let (connection, hello) = join(one, 99);
        refused(connection, hello);
    }
    let theirs: Vec<_> = (0..5).map(|at| other.stream(at)).collect();
    // From how many addresses ever, there are no more than all.
    let third = from(3);
    let (connection, hello) = join(&third, 0);
    refused(connection, hello);
    let more: Vec<_> = (0..2).map(|_| from(4)).collect();
    refused(more[0].dial(), Hello::new(Purpose::Control, CIPHER));
    // What is given back can be had again.
    drop((held, streams, theirs, more));
    let again = wait_until(Duration::from_secs(20), || {
        third.dial().hello(&Hello::new(Purpose::Control, CIPHER), SOON).is_ok()
    });
    assert!(again, "no session after all of them ended");
    listening.stop();
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
    // A byte or two of a message that become many in memory, and many messages to few transfers.
    let loss = Loss { what: String::new(), why: String::new() };
    let losses = vec![loss; limits::MESSAGE_LOSSES_MAX];
    let runs = vec![Run { first: 0, count: 1 }; limits::MESSAGE_RUNS_MAX];
    let digests = vec![Digest::default(); limits::MESSAGE_DIGESTS_MAX];
    for (words, message) in [
        ("losses", T::Settled(vec![(EntryId(0), Outcome::Done { digest: None, losses })])),
        ("runs", T::Want(vec![(EntryId(0), Want::Missing(runs))])),
        ("digests", T::Have { entry: EntryId(0), first: 0, digests }),
    ] {
        let mut client = world.client();
        let bytes = Message::Transfer(ONE, message).encode().unwrap();
        for _ in 0..200 {
            if !client.line.say_raw(&bytes) {
                break;
            }
        }
        let resident = resident_bytes(world.daemon.pid());
        assert!(client.line.is_ended(AT_ONCE), "200 messages of {words} were taken");
        assert!(resident < 300 << 20, "{resident} bytes resident after {words}");
    }
    world.still_serves("after early messages");
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

#[test]
fn the_key_of_a_session_is_worth_nothing_under_another_certificate() {
    let scratch = Scratch::new();
    let (listening, one, two, server) = served(&scratch, thalweg_service::sessions::HostLimits::default());
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

/// The service itself, with limits of a test, and with two clients that it knows, which a daemon does not have.
pub(super) fn served(
    scratch: &Scratch,
    limits: thalweg_service::sessions::HostLimits,
) -> (thalweg_service::accept::Listening, Identity, Identity, Identity) {
    use thalweg_mover::link::ClientTrust;
    use thalweg_service::export::{Export, Exports};
    use thalweg_service::{accept, sessions};
    std::fs::create_dir(scratch.path("export")).unwrap();
    let new = |name: &str| Identity::generate(name).unwrap();
    let (server, one, two) = (new("server"), new("one"), new("two"));
    let trust = ClientTrust::default();
    trust.pinned.insert(one.fingerprint());
    trust.pinned.insert(two.fingerprint());
    let exports = Exports::open(vec![Export::of("data", scratch.path("export"))]).unwrap();
    let own = Identity::from_pem(&server.to_pem()).unwrap();
    let host = sessions::Host::new(own, exports, None, limits);
    let listening = accept::listen(host, &server, &trust, &["127.0.0.1:0".into()]).unwrap();
    (listening, one, two, server)
}

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

/// A client that pushes to a server of its own, which has read its hello.
fn greeted(scratch: &Scratch) -> (HostileServer, Running, thalweg_mover::link::Connection) {
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let server = HostileServer::new(scratch, "bad-ticket");
    let places = [scratch.path("file").display().to_string(), server.place("x")];
    let job = Running::start(cp(scratch, &server, &places));
    let mut connection = server.accept(SOON).expect("the client comes");
    connection.read_hello(SOON).expect("a hello");
    (server, job, connection)
}

/// All at once: each client tries again until its patience ends.
#[test]
fn a_server_of_another_version_ends_the_client_with_a_clear_sentence() {
    type Case = (&'static str, u16, (u16, u16), Answer, &'static str);
    let not_the_highest = "the peer chose a version that is not the highest in common";
    let cases: [Case; 7] = [
        ("one up", 0, (2, 2), Answer::Version, "update the older side"),
        ("one down", 0, (0, 0), Answer::Version, "update the older side"),
        ("says yes to version 0", 0, (1, 1), Answer::Accepted, not_the_highest),
        ("says yes to version 2", 2, (1, 2), Answer::Accepted, not_the_highest),
        ("versions stripped", 1, (2, 3), Answer::Accepted, not_the_highest),
        ("no session", 1, (1, 1), Answer::Accepted, "the peer gave no session"),
        ("unknown session", 1, (1, 1), Answer::UnknownSession, "does not know this session"),
    ];
    std::thread::scope(|scope| {
        for (words, version, versions, answer, sentence) in cases {
            scope.spawn(move || {
                let scratch = Scratch::new();
                let (_server, job, mut connection) = greeted(&scratch);
                let session = if words == "no session" { [0; 16] } else { [9; 16] };
                let hello = ServerHello {
                    version,
                    versions,
                    answer,
                    cipher: CIPHER,
                    features: 0,
                    session,
                    system: System::default(),
                };
                connection.answer(&hello, SOON).expect("answered");
                let ran = job.end(Duration::from_secs(60));
                assert_eq!(ran.code, Some(3), "{words}: {}", ran.stderr);
                assert!(ran.stderr.contains(sentence), "{words}: {}", ran.stderr);
                assert!(in_time(words, ran.took, Duration::from_secs(15)), "{words}: {:?}", ran.took);
            });
        }
        // Garbage for an answer.
        for seed in 0..5 {
            scope.spawn(move || {
                let scratch = Scratch::new();
                let (_server, job, mut connection) = greeted(&scratch);
                connection.write_all(&noise(seed, 64), SOON).expect("answered");
                let ran = job.end(Duration::from_secs(60));
                assert_eq!(ran.code, Some(3), "{}", ran.stderr);
            });
        }
    });
}

/// A number is used once: what is on its way to a transfer that is over shall not reach another.
#[test]
fn the_number_of_a_transfer_is_not_used_twice_and_what_is_said_to_one_that_is_over_is_nothing() {
    let mut world = World::new();
    let mut client = world.client();
    client.open(pull("data", "absent")).expect_err("refused");
    for _ in 0..100 {
        client.line.tell(T::Withdraw(vec![(EntryId(0), None)]));
    }
    let again = client.open(push("data", "again")).expect_err("its number was used");
    assert!(again.contains("used before"), "{again}");
    client.open(Open { transfer: TransferNumber(2), ..push("data", "again") }).expect("another number");
    world.is_unharmed("after a number was used twice");
}

/// Else one session had as many transfers as it likes.
#[test]
fn a_number_that_is_taken_does_not_take_the_transfer_that_has_it_out_of_the_count() {
    let mut world = World::new();
    let mut client = world.client();
    let most = limits::TRANSFERS_MAX as u16;
    let open = |client: &mut HostileClient, number: u16, name: &str| {
        let terms = thalweg_wire::message::Terms { job_key: [number.to_le_bytes()[0]; 16], ..terms() };
        client.open(Open { transfer: TransferNumber(number), terms, ..push("data", name) })
    };
    open(&mut client, most, "first").expect("the first");
    for round in 0..3 {
        let refused = open(&mut client, most, &format!("again-{round}")).expect_err("its number is taken");
        assert!(refused.contains("used before"), "{refused}");
    }
    for number in 1..most {
        open(&mut client, number, &format!("other-{number}")).expect("room for one more");
    }
    open(&mut client, most + 1, "one-too-many").expect_err("the first is still there");
    drop(client);
    world.still_serves("after a number that was taken");
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
        question: Question::Read { place: place.clone(), offset: 0, bytes: 0, seen: None },
    };
    client.line.say(&ask(1));
    let mut pieces = 0;
    let mut wait = AT_ONCE;
    while let Heard::Message(Message::Reply { number: 1, .. }) = client.line.hear(wait) {
        pieces += 1;
        // The last of them comes when it comes; another one would follow soon.
        wait = if pieces < limits::REPLIES_AHEAD_MAX { AT_ONCE } else { Duration::from_secs(2) };
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
fn who_asks_in_vain_writes_neither_long_lines_nor_many_of_them_into_the_log() {
    let mut world = World::new();
    let mut client = world.client();
    let began = Instant::now();
    for number in 0..600 {
        let name_bytes = if number == 0 { limits::PATH_BYTES_MAX } else { 10 };
        let place = Place { export: Some("ro".to_owned()), path: vec![1; name_bytes] };
        let open = Open { transfer: TransferNumber(number), ..asks(Request::Push(Push::to(place))) };
        assert!(client.open(open).is_err(), "the export is read-only");
    }
    // What may do something has its line all the same.
    let trial = Open { transfer: TransferNumber(600), ..push_trial("ro", "x", PushTrial::Null) };
    client.open(trial).expect("a trial");
    let is_of_trial = |line: &str| line.contains("transfer begins") && line.contains("probe");
    let log = world.scratch.server_log();
    assert!(log.lines().any(is_of_trial), "nobody would know of it, were the daemon killed now");
    // Another session of the same client counts with this one.
    let mut again = world.client();
    for number in 0..100 {
        let open = Open { transfer: TransferNumber(number), ..push("ro", "x") };
        assert!(again.open(open).is_err(), "the export is read-only");
    }
    // A name that no export has ends the session.
    assert!(client.open(push(&"e".repeat(limits::NAME_BYTES_MAX + 1), "")).is_err());
    let log = world.scratch.server_log();
    let failed = log.matches("transfer failed").count() as u64;
    // Of each minute, where the machine is held up.
    let most = 256 * (1 + began.elapsed().as_secs() / 60);
    assert!((1..=most).contains(&failed), "{failed} failures are told");
    assert_eq!(log.matches("transfer begins").count(), 1, "what is refused has one line");
    let longest = log.lines().map(str::len).max().unwrap_or(0);
    assert!(longest < 8 << 10, "a line of {longest} bytes");
    world.still_serves("after failures");
}

#[test]
fn a_stream_is_told_that_less_of_it_is_kept_than_it_asked_for() {
    use thalweg_service::sessions::HostLimits;
    use thalweg_wire::message::{FlowTerms, Until};
    let scratch = Scratch::new();
    let little = HostLimits { held_bytes_max: 16 << 20, ..HostLimits::default() };
    let (listening, identity, _, server) = served(&scratch, little);
    let address = listening.addresses[0].to_string();
    let mut client = HostileClient::begin_from(identity, server.fingerprint(), &address, None);
    let window_bytes = limits::FLOW_WINDOW_BYTES_MAX;
    let flow = FlowTerms { until: Until::default(), window_bytes, mark_every_ms: 10 };
    let request = Request::FlowPush { place: place("data", "into"), source: SourceForm::Many, flow };
    let opened = client.open(asks(request)).expect("the push is opened");
    assert!(matches!(opened, Opened::FlowPush { window_bytes, .. } if window_bytes == 4 << 20), "{opened:?}");
    listening.stop();
}

#[test]
fn who_streams_tells_that_less_is_kept_than_was_asked_for_and_goes_by_it() {
    use std::sync::{Arc, Mutex};
    use thalweg_mover::event::{self, Event, Events};
    use thalweg_mover::link::{ServerTrust, client_config};
    use thalweg_mover::run::client::TcpConnect;
    use thalweg_mover::run::copy::{Stop, Watch};
    use thalweg_mover::run::far_mover::FarMover;
    use thalweg_mover::run::flow::job::{FlowFrom, FlowTo, FlowWishes, stream};
    use thalweg_service::sessions::HostLimits;
    use thalweg_wire::message::Until;
    let scratch = Scratch::new();
    let little = HostLimits { held_bytes_max: 16 << 20, ..HostLimits::default() };
    let (listening, identity, _, server) = served(&scratch, little);
    let tls = client_config(&identity, &ServerTrust::Pinned(server.fingerprint())).unwrap();
    let connect = Arc::new(TcpConnect::new(vec![listening.addresses[0].to_string()]));
    let far = Arc::new(FarMover::new(connect, tls));
    let (here, back) = (scratch.path("run"), scratch.path("back"));
    std::fs::write(&here, noise(1, 6 << 20)).unwrap();
    let there = || place("data", "run");
    for (from, to, keeps) in [
        (FlowFrom::Local(here.clone()), FlowTo::Far(far.clone(), there()), "destination"),
        (FlowFrom::Far(far.clone(), there()), FlowTo::Local(back.clone()), "source"),
    ] {
        let notes: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = notes.clone();
        let events: Events = Arc::new(move |event| {
            if let Event::Note(text) = event {
                noted.lock().unwrap().push(text);
            }
        });
        let watch = Watch {
            events,
            is_behind: None,
            link_events: event::nobody(),
            meter: Arc::default(),
            evidence: None,
        };
        let wishes = FlowWishes::new(Until::default());
        stream(from, to, &wishes, &identity, &watch, &Stop::default()).expect("a stream");
        let told = format!("the {keeps} keeps at most {} bytes of a stream", 4 << 20);
        let notes = notes.lock().unwrap().clone();
        assert_eq!(notes.iter().filter(|note| note.starts_with(&told)).count(), 1, "{notes:?}");
    }
    assert!(std::fs::read(&back).unwrap() == std::fs::read(&here).unwrap());
    far.close();
    listening.stop();
}
