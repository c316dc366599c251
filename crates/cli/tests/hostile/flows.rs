//! Streams (what is still being made): senders and receivers of flows that lie, and who would have all slots.

use super::*;
use thalweg_wire::message::{
    FlowBegin, FlowMark, FlowMessage as F, FlowStand, FlowTerms, Origin, Rhythm, SlotAsk, SlotWish, Terms,
    Until,
};

fn flow_terms() -> FlowTerms {
    FlowTerms { until: Until::default(), window_bytes: limits::FLOW_WINDOW_BYTES_MIN, mark_every_ms: 10 }
}

fn begin(flow: u64, at: &str) -> FlowBegin {
    FlowBegin {
        flow: EntryId(flow),
        path: path(at),
        origin: Origin([flow as u8; 16]),
        mode: 0o644,
        is_certain: false,
    }
}

fn mark(flow: u64, content: &[u8]) -> FlowMark {
    FlowMark { flow: EntryId(flow), bytes: content.len() as u64, digest: digest_of(content) }
}

fn flow_push(export: &str, into: &str, flow: FlowTerms) -> Open {
    asks(Request::FlowPush { place: place(export, into), source: SourceForm::Many, flow })
}

/// A piece with a digest that is right: of a piece by itself, not of a part of a file. False when it is not taken.
fn piece(stream: &mut Stream, flow: u64, offset: u64, bytes: &[u8]) -> bool {
    stream.send(segment(flow, offset, bytes.len(), digest_of(bytes)), bytes)
}

/// A push of flows, with one stream.
fn pushing(world: &World, into: &str) -> (HostileClient, Stream) {
    let mut client = world.client();
    client.open(flow_push("data", into, flow_terms())).expect("the push is opened");
    let stream = client.stream(0);
    (client, stream)
}

fn stands(line: &mut Line, flow: u64) -> Option<FlowStand> {
    line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Flow(F::Stand(stands))) => {
            stands.into_iter().find(|stand| stand.at.flow == EntryId(flow))
        }
        _ => None,
    })
}

#[test]
fn a_flow_whose_name_could_leave_the_root_is_not_even_decoded() {
    let mut world = World::new();
    for raw in [&b".."[..], b"../planted", b"a/../../planted", b"/etc/planted", b"a//b", b"nul\0", b""] {
        let (mut client, _stream) = pushing(&world, "into");
        let message = T::Flow(F::Begin(vec![begin(0, PLACEHOLDER)]));
        client.line.say_body(&with_raw_path(message, raw));
        assert!(client.line.is_ended(AT_ONCE), "{}", thalweg_wire::path::Escaped(raw));
        world.is_unharmed("a name");
    }
    let root = thalweg_wire::RelativePath::root();
    for (words, odd) in [
        ("the root", FlowBegin { path: root, ..begin(0, "x") }),
        ("a mode that is none", FlowBegin { mode: 0o4755, ..begin(0, "x") }),
    ] {
        let (mut client, _stream) = pushing(&world, "into");
        client.line.tell(T::Flow(F::Begin(vec![odd])));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    world.still_serves("after names of flows");
}

#[test]
fn a_flow_is_not_written_through_a_link_nor_over_what_is_anothers() {
    let mut world = World::new();
    std::fs::create_dir(world.export("into")).unwrap();
    let outside = world.scratch.path("outside");
    std::os::unix::fs::symlink(&outside, world.export("into/link")).unwrap();
    std::os::unix::fs::symlink(outside.join("canary"), world.export("into/canary")).unwrap();
    std::fs::create_dir(world.export("into/dir")).unwrap();
    std::fs::write(world.export("into/victim"), b"what stands there").unwrap();
    let (mut client, mut stream) = pushing(&world, "into/");
    for (flow, at) in [(0, "link/planted"), (1, "canary"), (2, "dir"), (3, "victim/below")] {
        client.line.tell(T::Flow(F::Begin(vec![begin(flow, at)])));
        let outcome = client.line.outcome_of(flow, AT_ONCE);
        assert!(matches!(outcome, Some(Outcome::Failed(_))), "{at}: {outcome:?}");
        world.is_unharmed(at);
    }
    // What stands there is told as another's; bytes that do not follow it do not change it.
    client.line.tell(T::Flow(F::Begin(vec![begin(4, "victim")])));
    let stand = stands(&mut client.line, 4).expect("where it stands");
    assert_eq!((stand.at.bytes, stand.is_ours), (17, false));
    piece(&mut stream, 4, 0, b"overwritten, all of it");
    client.line.tell(T::Flow(F::End(vec![mark(4, b"overwritten, all of it")])));
    let _ = client.line.outcome_of(4, Duration::from_secs(2));
    let there = std::fs::read(world.export("into/victim")).unwrap();
    assert!(there.starts_with(b"what stands there"), "{}", String::from_utf8_lossy(&there));
    drop(client);
    world.still_serves("after links");
}

/// Whether a file begins as its source does, only the sender says.
#[test]
fn where_nothing_is_replaced_a_stream_changes_nothing_that_stands_there_whatever_its_sender_says() {
    let scratch = Scratch::in_memory();
    let into = scratch.path("export").join("into");
    std::fs::create_dir_all(&into).unwrap();
    std::fs::write(into.join("victim"), b"what stands there").unwrap();
    std::fs::write(into.join("empty"), b"").unwrap();
    let export = format!("once={}:no-replace", scratch.path("export").display());
    let daemon = scratch.daemon_at("127.0.0.1:0", &[], &["--export", &export], |command| command);
    let pushing = || {
        let mut client = HostileClient::begin(&daemon.ticket, &daemon.address());
        client.open(flow_push("once", "into/", flow_terms())).expect("the push is opened");
        let stream = client.stream(0);
        (client, stream)
    };
    let is_refused = |client: &mut HostileClient, flow: u64| {
        let outcome = client.line.outcome_of(flow, AT_ONCE);
        matches!(outcome, Some(Outcome::Failed(why)) if why.kind == FailureKind::Permission)
    };
    let (mut client, mut stream) = pushing();
    for (flow, at) in [(0, "victim"), (1, "empty")] {
        client.line.tell(T::Flow(F::Begin(vec![begin(flow, at)])));
        assert!(is_refused(&mut client, flow), "{at}");
    }
    // A file of its own, to which somebody here appends.
    let own = into.join("own");
    client.line.tell(T::Flow(F::Begin(vec![begin(2, "own")])));
    stands(&mut client.line, 2).expect("where it stands");
    piece(&mut stream, 2, 0, b"1");
    let marked = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Flow(F::Mark(marks))) => marks.iter().find(|mark| mark.bytes == 1).copied(),
        _ => None,
    });
    assert!(marked.is_some(), "it is its own");
    std::fs::write(&own, b"1 and what came here").unwrap();
    piece(&mut stream, 2, 1, b"overwritten, all of it");
    assert!(is_refused(&mut client, 2), "over what came");
    client.line.say(&Message::Goodbye(None));
    drop((client, stream));
    let (mut client, _stream) = pushing();
    client.line.tell(T::Flow(F::Begin(vec![begin(2, "own")])));
    let stand = stands(&mut client.line, 2).expect("where it stands");
    assert_eq!((stand.at.bytes, stand.is_ours), (1, true));
    client.line.tell(T::Flow(F::End(vec![mark(2, b"1")])));
    assert!(is_refused(&mut client, 2), "cut behind its mark");
    assert_eq!(std::fs::read(&own).unwrap(), b"1 and what came here");
    assert_eq!(std::fs::read(into.join("victim")).unwrap(), b"what stands there");
    assert_eq!(std::fs::read(into.join("empty")).unwrap(), b"");
}

#[test]
fn a_sender_of_flows_that_lies_loses_its_session_or_its_flow() {
    let mut world = World::new();
    let content = b"five!";
    type Lie = (&'static str, fn(&mut HostileClient, &mut Stream));
    // Each ends the session.
    let lies: Vec<Lie> = vec![
        ("an offer of a file", |client, _| {
            client.line.tell(T::Offer(vec![file(0, "x", 5)]));
        }),
        ("a mark", |client, _| {
            client.line.tell(T::Flow(F::Mark(vec![mark(0, b"five!")])));
        }),
        ("a place where it stands", |client, _| {
            let stand = FlowStand { at: mark(0, b""), is_ours: true, is_over: false, name: None };
            client.line.tell(T::Flow(F::Stand(vec![stand])));
        }),
        ("the same number for another", |client, _| {
            client.line.tell(T::Flow(F::Begin(vec![begin(0, "other")])));
        }),
        ("the end of what did not begin", |client, _| {
            client.line.tell(T::Flow(F::End(vec![mark(77, b"five!")])));
        }),
        ("the end before what was sent", |client, stream| {
            piece(stream, 0, 0, b"five!");
            client.line.hear_some(AT_ONCE, |message| match message {
                Message::Transfer(_, T::Flow(F::Mark(marks))) => {
                    marks.iter().find(|mark| mark.bytes == 5).copied()
                }
                _ => None,
            });
            client.line.tell(T::Flow(F::End(vec![mark(0, b"fiv")])));
        }),
        ("an end beyond all files", |client, _| {
            let bytes = limits::FILE_BYTES_MAX + 1;
            client.line.tell(T::Flow(F::End(vec![FlowMark { bytes, ..mark(0, b"") }])));
        }),
        ("a piece of what did not begin", |_, stream| {
            piece(stream, 77, 0, b"five!");
        }),
        ("a piece at the end of numbers", |_, stream| {
            piece(stream, 0, u64::MAX - 2, b"five!");
        }),
        ("a piece behind the end", |client, stream| {
            client.line.tell(T::Flow(F::End(vec![mark(0, b"five!!!")])));
            std::thread::sleep(Duration::from_millis(200));
            piece(stream, 0, 5, b"and more");
        }),
        ("more than the window", |_, stream| {
            // The first byte never comes.
            for number in 0..64u64 {
                if !piece(stream, 0, 1 + number * CHUNK, &[7; CHUNK as usize]) {
                    return;
                }
            }
        }),
        ("a piece that is a pack", |_, stream| {
            let inner = Inner { kind: FrameKind::Pack, ..segment(0, 0, 5, digest_of(b"five!")) };
            stream.send(inner, b"five!");
        }),
    ];
    for (words, lie) in lies {
        let (mut client, mut stream) = pushing(&world, "into/");
        client.line.tell(T::Flow(F::Begin(vec![begin(0, "x")])));
        assert!(stands(&mut client.line, 0).is_some(), "{words}");
        lie(&mut client, &mut stream);
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
        drop((client, stream));
        let _ = std::fs::remove_dir_all(world.export("into"));
    }
    // These end the flow: it is told as damaged, never as good.
    let (mut client, mut stream) = pushing(&world, "digest/");
    client.line.tell(T::Flow(F::Begin(vec![begin(0, "x")])));
    stands(&mut client.line, 0).expect("where it stands");
    piece(&mut stream, 0, 0, content);
    client.line.tell(T::Flow(F::End(vec![FlowMark { digest: Digest([9; 32]), ..mark(0, content) }])));
    let outcome = client.line.outcome_of(0, AT_ONCE);
    assert!(matches!(outcome, Some(Outcome::Failed(_))), "{outcome:?}");
    // A piece that is not what its digest says is asked for again, and never written.
    client.line.tell(T::Flow(F::Begin(vec![begin(1, "y")])));
    stands(&mut client.line, 1).expect("where it stands");
    stream.send(segment(1, 0, 5, Digest([9; 32])), content);
    let again = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Flow(F::Again(pieces))) => Some(pieces),
        _ => None,
    });
    assert_eq!(again, Some(vec![(EntryId(1), 0)]));
    assert_eq!(std::fs::read(world.export("digest/y")).unwrap(), b"");
    drop(client);
    world.still_serves("after a hostile sender of flows");
}

#[test]
fn a_receiver_of_flows_that_lies_does_not_get_exit_0() {
    let scratch = Scratch::new();
    let content = noise(3, 100_000);
    std::fs::write(scratch.path("file"), &content).unwrap();
    let stand =
        |at: FlowMark| T::Flow(F::Stand(vec![FlowStand { at, is_ours: true, is_over: false, name: None }]));
    let nothing = || mark(0, b"");
    let settled = |outcome| T::Settled(vec![(EntryId(0), outcome)]);
    let finished = || T::Finished(Totals { done: 1, ..Totals::default() });
    // With what the client says of one that no receiver may say: of others it only fails.
    let lies: Vec<(&str, Option<&str>, Vec<T>)> = vec![
        ("finished at once", Some("has finished before all flows"), vec![finished()]),
        ("settled before its end", None, vec![settled(done(Some(digest_of(&content)))), finished()]),
        ("stands with what there is not", Some("stands with a flow"), vec![stand(mark(77, b""))]),
        ("stands beyond the end", None, vec![stand(FlowMark { bytes: 1 << 40, ..nothing() })]),
        ("stands with other content", None, vec![stand(FlowMark { bytes: 5, ..nothing() })]),
        ("stands twice", Some("was not asked"), vec![stand(nothing()), stand(nothing())]),
        (
            "a mark of what was never sent",
            Some("a mark where no piece ends"),
            vec![stand(nothing()), T::Flow(F::Mark(vec![FlowMark { bytes: 1 << 40, ..nothing() }]))],
        ),
        ("a mark of nothing", Some("a mark of a flow"), vec![T::Flow(F::Mark(vec![mark(77, b"")]))]),
        ("a flow of its own", Some("cannot say"), vec![T::Flow(F::Begin(vec![begin(9, "planted")]))]),
        ("again, without end", None, {
            let again = T::Flow(F::Again(vec![(EntryId(0), 0)]));
            std::iter::once(stand(nothing())).chain((0..200).map(|_| again.clone())).collect()
        }),
        (
            "abort",
            None,
            vec![T::Abort(Failure::new(FailureKind::Internal, "write", "no\u{1b}[31m\u{9b}more"))],
        ),
        ("another digest", None, vec![stand(nothing()), settled(done(Some(Digest([9; 32])))), finished()]),
    ];
    for (words, breach, lie) in lies {
        let server = HostileServer::new(&scratch, "bad-ticket");
        let job =
            with(scratch.thalweg(), ["stream", "--stall-timeout", "2s", "--patience", "6s", "--ticket"]);
        let job = with(with(job, [&server.ticket, &scratch.path("file")]), [server.place("x")]);
        let job = Running::start(job);
        let mut line = server.session().expect("the client comes");
        agree(&mut line, SourceForm::Single { name: b"x".to_vec() }).expect("an open");
        line.tell(T::Flow(F::Left(Vec::new(), Some(0))));
        let began = line.hear_some(SOON, |message| match message {
            Message::Transfer(_, T::Flow(F::Begin(begins))) => begins.into_iter().next(),
            _ => None,
        });
        assert_eq!(began.expect("a flow").flow, EntryId(0), "{words}");
        // What it sends is taken, and forgotten.
        let mut stream = server.stream(SOON).expect("a stream");
        let taking = std::thread::spawn(move || while stream.receive().is_some() {});
        for message in lie {
            line.tell(message);
        }
        let is_refused = match breach {
            Some(_) => is_told_breach(&mut line),
            None => line.is_ended(Duration::from_secs(2)),
        };
        drop((line, server));
        let ran = job.end(Duration::from_secs(60));
        let _ = taking.join();
        // Its goodbye may be lost where we had more to say than it heard.
        let says = |breach: &str| is_refused || ran.stderr.contains(breach);
        assert!(breach.is_none_or(says), "{words}: {}", ran.stderr);
        assert!(!matches!(ran.code, Some(0) | None), "{words}: {:?} {}", ran.code, ran.stderr);
        assert_inert(&ran, words);
    }
    assert!(std::fs::read(scratch.path("file")).unwrap() == content);
}

#[test]
fn a_pull_of_flows_writes_only_what_it_asked_for() {
    for (words, at) in [("beside it", "planted"), ("below it", "x/planted")] {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("into")).unwrap();
        let server = HostileServer::new(&scratch, "bad-ticket");
        let job =
            with(scratch.thalweg(), ["stream", "--stall-timeout", "2s", "--patience", "6s", "--ticket"]);
        let job = with(
            with(job, [&server.ticket]),
            [server.place("x"), scratch.path("into/").display().to_string()],
        );
        let job = Running::start(job);
        let mut line = server.session().expect("the client comes");
        agree(&mut line, SourceForm::Single { name: b"x".to_vec() }).expect("an open");
        line.tell(T::Flow(F::Begin(vec![begin(0, at)])));
        line.is_ended(Duration::from_secs(3));
        drop((line, server));
        let ran = job.end(Duration::from_secs(60));
        assert!(!matches!(ran.code, Some(0) | None), "{words}: {:?} {}", ran.code, ran.stderr);
        let planted = facts(&scratch.path("into")).into_keys();
        let planted: Vec<_> =
            planted.filter(|name| String::from_utf8_lossy(name).contains("planted")).collect();
        assert!(planted.is_empty(), "{words}: {planted:?}");
    }
}

/// A question about slots, and its answer.
fn ask_slot(client: &mut HostileClient, number: u32, ask: SlotAsk) -> Option<Result<Option<Reply>, Failure>> {
    client.line.say(&Message::Ask { number, question: Question::Slot(ask) });
    let mut said = None;
    client.line.hear_some(AT_ONCE, |message| match message {
        Message::Reply { number: at, reply: Reply::End(why) } if at == number => {
            Some(why.map_or(Ok(said.take()), Err))
        }
        Message::Reply { number: at, reply } if at == number => {
            said = Some(reply);
            None
        }
        _ => None,
    })
}

#[test]
fn a_producer_that_sends_more_than_its_slot_is_for_is_named() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon_with(&[("data", &scratch.path("export"))], &["--slots", "10Gbit/s"]);
    let mut client = HostileClient::begin(&daemon.ticket, &daemon.address());
    let wish = SlotWish {
        rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 100_000 },
        deadline_micros: 1_000_000,
        ready_ago_micros: 0,
        guard_micros: 0,
    };
    let taken = ask_slot(&mut client, 1, SlotAsk::Take { wish, instead: None });
    let Some(Ok(Some(Reply::Slot(slot)))) = taken else { panic!("{taken:?}") };
    assert_eq!(slot.over_bytes, 0);
    let flow = FlowTerms { window_bytes: 16 << 20, ..flow_terms() };
    client.open(flow_push("data", "into", flow)).expect("the push is opened");
    let mut stream = client.stream(0);
    client.line.tell(T::Flow(F::Begin(vec![begin(0, "into")])));
    stands(&mut client.line, 0).expect("where it stands");
    // 4 MiB at once, of which two windows are for a twentieth.
    let content = vec![7; limits::SEGMENT_BYTES_MIN as usize];
    let pieces = (4 << 20) / content.len() as u64;
    for number in 0..pieces {
        assert!(piece(&mut stream, 0, number * content.len() as u64, &content));
    }
    let mut number = 1;
    let is_named = wait_until(Duration::from_secs(60), || {
        number += 2;
        // However long it takes, its lease does not end meanwhile.
        let kept = ask_slot(&mut client, number, SlotAsk::Keep(slot.lease));
        assert!(matches!(kept, Some(Ok(Some(Reply::Slot(_))))), "{kept:?}");
        match ask_slot(&mut client, number + 1, SlotAsk::All) {
            Some(Ok(Some(Reply::Slots(table)))) => table.slots[0].slot.over_bytes >= 2 << 20,
            other => panic!("{other:?}"),
        }
    });
    assert!(is_named, "what came beyond the slot is not told");
}

#[test]
fn slots_are_bounded_and_belong_to_who_took_them() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let mut daemon = scratch.daemon_with(&[("data", &scratch.path("export"))], &["--slots", "10Gbit/s"]);
    let begin = || HostileClient::begin(&daemon.ticket, &daemon.address());
    let wish = |period_micros, bytes| SlotWish {
        rhythm: Rhythm::Bursts { period_micros, bytes },
        deadline_micros: 1_000_000,
        ready_ago_micros: 0,
        guard_micros: 0,
    };
    let take = |wish| SlotAsk::Take { wish, instead: None };
    let odd = [
        take(wish(0, 1)),
        take(wish(1_000_000, 0)),
        take(wish(u64::MAX, 1)),
        take(SlotWish { deadline_micros: u64::MAX, ..wish(1_000_000, 1) }),
        take(SlotWish { ready_ago_micros: u64::MAX, ..wish(1_000_000, 1) }),
        take(SlotWish { guard_micros: u64::MAX, ..wish(1_000_000, 1) }),
        take(SlotWish { rhythm: Rhythm::Steady { bytes_per_s: 0 }, ..wish(1_000_000, 1) }),
    ];
    for odd in odd {
        let mut client = begin();
        client.line.say(&Message::Ask { number: 1, question: Question::Slot(odd.clone()) });
        assert!(client.line.is_ended(AT_ONCE), "{odd:?}");
    }
    let mut client = begin();
    for huge in [
        wish(1_000_000, u64::MAX),
        SlotWish { rhythm: Rhythm::Steady { bytes_per_s: u64::MAX }, ..wish(1, 1) },
    ] {
        assert!(matches!(ask_slot(&mut client, 1, take(huge)), Some(Err(_))), "{huge:?}");
    }
    // Periods that have nothing in common: each is looked at, none for long. All under one number: who heard how a
    // question ended may ask the next one under it.
    let (mut taken, mut refused) = (0, 0);
    for nth in 0..400 {
        match ask_slot(&mut client, 2, take(wish(50_000 + nth * 37, 1000))) {
            Some(Ok(Some(Reply::Slot(_)))) => taken += 1,
            Some(Err(failure)) if failure.kind == FailureKind::Busy => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        taken > 0 && refused > 0 && taken <= limits::SLOTS_MAX as u32,
        "{taken} taken, {refused} refused"
    );
    // What nobody took, nobody keeps.
    assert!(matches!(ask_slot(&mut client, 1000, SlotAsk::Keep([7; 16])), Some(Err(_))));
    assert!(matches!(ask_slot(&mut client, 1001, SlotAsk::Leave([7; 16])), Some(Ok(None))));
    assert!(daemon.is_alive());
    assert!(!scratch.server_log().contains("panicked"), "{}", scratch.server_log());
}

/// Of each stream.
const CHUNKS_EACH: u64 = 128;

/// The most that the daemon was seen to let come ahead of what it reads, by so many new streams of one push that asked
/// for the largest window that there is; each sends as much as lets a window grow.
fn windows_seen(client: &mut HostileClient, into: &str, streams: u16) -> u32 {
    let open = push("data", into);
    let job_key = [into.len() as u8; 16];
    let wide = Terms { window_bytes: Some(limits::WINDOW_BYTES_MAX), job_key, ..open.terms.clone() };
    client.open(Open { terms: wide, ..open }).expect("the push is opened");
    let (chunk, chunks) = (vec![7; CHUNK as usize], u64::from(streams) * CHUNKS_EACH);
    let bytes = chunks * CHUNK;
    offer_and_hear_want(client, vec![file(0, "large", bytes)]);
    let (mut most, mut number) = (0, 0);
    // They stand until the end: who has many streams has no more than who has one.
    let mut standing = Vec::new();
    for stream in 0..streams {
        let mut stream = client.stream(stream);
        for _ in 0..CHUNKS_EACH {
            assert!(stream.segment(0, number * CHUNK, &chunk, bytes));
            number += 1;
            let info = thalweg_sys::socket::tcp_info(stream.writer.fd()).expect("what the kernel says");
            most = most.max(info.send_window_bytes);
        }
        standing.push(stream);
    }
    let acknowledged = client
        .line
        .hear_some(AT_ONCE, |message| matches!(message, Message::Transfer(_, T::Ack(..))).then_some(()));
    assert!(acknowledged.is_some(), "it is taken all the same");
    for stream in &standing {
        let info = thalweg_sys::socket::tcp_info(stream.writer.fd()).expect("what the kernel says");
        most = most.max(info.send_window_bytes);
    }
    most
}

#[test]
fn who_asks_for_a_large_window_beside_slots_gets_no_more_than_they_leave() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon_with(&[("data", &scratch.path("export"))], &["--slots", "100Mbit/s"]);
    let begin = || HostileClient::begin(&daemon.ticket, &daemon.address());
    let mut owner = begin();
    let wish = SlotWish {
        rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 1000 },
        deadline_micros: 5_000_000,
        ready_ago_micros: 0,
        guard_micros: 0,
    };
    let taken = ask_slot(&mut owner, 1, SlotAsk::Take { wish, instead: None });
    assert!(matches!(taken, Some(Ok(Some(Reply::Slot(_))))), "{taken:?}");
    let beside = windows_seen(&mut begin(), "beside", 3);
    // Twice four of the largest segments that the loopback has: more than what the slots of this line leave.
    assert!(beside <= 2 * 4 * 65_536, "{beside} bytes: asking for a window gets it beside slots too");
}
