//! Clients that are who they say they are, and lie about everything else: each costs its own session, and no other.

use crate::support::Scratch;
use crate::support::peer::{Heard, HostileClient, SOON, Stream, asks, digest_of, place};
use crate::{LIMIT, by, drain, how, os, push_all, receiver, sender, small, stand, status};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use thalweg_client::frames::{
    ChannelWishes, Delivery, FramePolicy, NewFrame, ReceiverWishes, Sender, SenderWishes,
};
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::FailureKind;
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::{
    FrameHead, FrameRole, FrameTerms, FramesMessage, HeldLevel, Item, Message, Open, ProducerId, Request,
    TransferMessage, TransferNumber,
};
use thalweg_wire::{Digest, EntryId};

fn open(role: FrameRole) -> Open {
    open_at("x", role)
}

fn open_at(path: &str, role: FrameRole) -> Open {
    let channel = ChannelWishes { memory_bytes: Some(1 << 20), ..ChannelWishes::default() };
    let frames = FrameTerms { window_bytes: 64 << 10, window_items: 4, channel, role };
    asks(Request::Frames { place: place("data", path), frames })
}

fn produce() -> FrameRole {
    produce_as(HeldLevel::Memory)
}

fn produce_as(level: HeldLevel) -> FrameRole {
    FrameRole::Produce { producer: liar(), process: [1; 16], first: None, level, keep_ms: 60_000 }
}

/// Each has a name of its own: what it did counts under it.
fn liar() -> ProducerId {
    ProducerId::new(&format!("liar{}", LIES.load(Ordering::Relaxed))).expect("a name")
}

static LIES: AtomicUsize = AtomicUsize::new(0);

fn head(sequence: u64, payload: &[u8]) -> FrameHead {
    FrameHead::bare(liar(), sequence, payload.len() as u64, digest_of(payload))
}

fn record(head: FrameHead, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Item::Frame(Box::new(head)).encode(&mut out).expect("a head");
    out.extend_from_slice(payload);
    out
}

fn send(stream: &mut Stream, number: u64, offset: u64, bytes: &[u8]) -> bool {
    let inner = Inner {
        kind: FrameKind::Segment,
        encoding: Encoding::Raw,
        transfer: TransferNumber(1),
        raw_bytes: bytes.len() as u32,
        entry: EntryId(1 << 48 | number),
        offset,
        digest: Digest::default(),
        is_again: false,
    };
    stream.send(inner, bytes)
}

/// What a liar does on its stream, or says.
type Lie = fn(&mut HostileClient, &mut Stream);

#[test]
fn frames_that_no_producer_sends_cost_their_session_and_nothing_else() {
    let lies: &[(&str, Lie)] = &[
        ("another sequence than its place", |_, stream| {
            send(stream, 0, 0, &record(head(7, b"x"), b"x"));
        }),
        ("another producer's name", |_, stream| {
            let other = FrameHead { producer: ProducerId::new("m").expect("a name"), ..head(0, b"x") };
            send(stream, 0, 0, &record(other, b"x"));
        }),
        ("a shape that does not fit", |_, stream| {
            let odd = FrameHead { shape: vec![1 << 62, 4], dtype: "<u2".into(), ..head(0, b"x") };
            send(stream, 0, 0, &record(odd, b"x"));
        }),
        ("a gigabyte and more", |_, stream| {
            let huge = FrameHead { payload_bytes: u64::MAX, ..head(0, b"x") };
            send(stream, 0, 0, &record(huge, b"x"));
        }),
        ("more than the channel holds", |_, stream| {
            let large = FrameHead { payload_bytes: 512 << 20, ..head(0, b"x") };
            send(stream, 0, 0, &record(large, b"x"));
        }),
        ("more than the window", |_, stream| {
            // The first never comes, so the others wait.
            for number in 1..9 {
                send(stream, number, 0, &record(head(number, &[7; 30_000]), &[7; 30_000]));
            }
        }),
        ("a hub's stamp", |_, stream| {
            let stamped = FrameHead { stamp: Some(stamp()), ..head(0, b"x") };
            send(stream, 0, 0, &record(stamped, b"x"));
        }),
        ("a payload that is longer than its head says", |_, stream| {
            let short = FrameHead { payload_bytes: 1, ..head(0, b"xyz") };
            send(stream, 0, 0, &record(short, b"xyz"));
        }),
        ("a segment that follows nothing", |_, stream| {
            send(stream, 0, 500, b"x");
        }),
        ("a head that is none", |_, stream| {
            send(stream, 0, 0, &[0xff; 300]);
        }),
        ("what a hub hands out", |_, stream| {
            let mut out = Vec::new();
            Item::End.encode(&mut out).expect("a head");
            send(stream, 0, 0, &out);
        }),
        ("damage without an end", |_, stream| {
            for _ in 0..100 {
                let damaged = FrameHead { digest: Digest([9; 32]), ..head(0, b"x") };
                send(stream, 0, 0, &record(damaged, b"x"));
            }
        }),
        ("an end before what it made", |client, stream| {
            send(stream, 0, 0, &record(head(0, b"x"), b"x"));
            client.line.hear_some(SOON, |message| {
                let taken = matches!(
                    message,
                    Message::Transfer(_, TransferMessage::Frames(FramesMessage::Taken { next: 1 }))
                );
                taken.then_some(())
            });
            client.line.tell(TransferMessage::Frames(FramesMessage::Finish { frames: 0 }));
        }),
        ("what only a consumer says", |client, _| {
            client.line.tell(TransferMessage::Frames(FramesMessage::Taken { next: 1 }));
        }),
        ("what only a file's sender says", |client, _| {
            client.line.tell(TransferMessage::OffersRepeated);
        }),
    ];
    let (scratch, mut daemon) = stand();
    let place = daemon.place("data", "x");
    let honest = sender(&scratch, &place, "m", SenderWishes::default());
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    for (at, (what, lie)) in lies.iter().enumerate() {
        LIES.store(at, Ordering::Relaxed);
        let mut client = HostileClient::begin(&daemon.ticket, &daemon.address());
        client.open(open(produce())).unwrap_or_else(|why| panic!("{what}: {why}"));
        let mut stream = client.stream(0);
        lie(&mut client, &mut stream);
        assert!(is_refused(&mut client), "{what}: it goes on");
        assert!(daemon.is_alive(), "{what}: the daemon is gone\n{}", scratch.server_log());
        push_all(&honest, "m", at as u64 * 3, at as u64 * 3 + 3, 100);
    }
    // What of the liar was sound counts, and it went away.
    let all = lies.len() as u64 * 3;
    honest.finish(Some(LIMIT)).expect("an end");
    let mut next = 0;
    while next < all {
        if let Some(thalweg_client::frames::Delivery::Frame(frame)) =
            taker.next(Some(LIMIT)).expect("no failure")
            && frame.producer == "m"
        {
            assert_eq!(frame.sequence, next);
            next += 1;
        }
    }
    assert!(status(&scratch, &place)["memory_bytes"].as_u64().unwrap() < 1 << 20);
}

/// Whether the session ends, or at least the transfer.
fn is_refused(client: &mut HostileClient) -> bool {
    loop {
        match client.line.hear(SOON) {
            Heard::Message(Message::Goodbye(_) | Message::Transfer(_, TransferMessage::Abort(_))) => {
                return true;
            }
            Heard::Ended => return true,
            Heard::Message(_) => {}
            Heard::Silence => return false,
        }
    }
}

fn stamp() -> thalweg_wire::message::HubStamp {
    let clock = thalweg_wire::message::ClockOffset { offset_ns: 0, bound_ns: 0 };
    thalweg_wire::message::HubStamp { taken_ns: 0, clock }
}

#[test]
fn openings_that_make_no_sense_are_refused() {
    let (scratch, mut daemon) = stand();
    let refused = |open: Open| {
        let mut client = HostileClient::begin(&daemon.ticket, &daemon.address());
        client.open(open).is_err()
    };
    assert!(refused(open_at("../../etc/x", produce())), "a channel outside");
    let deep = open_at("no/such/directory/x", produce_as(HeldLevel::Durable));
    assert!(refused(deep), "a log where no directory is");
    // What a transfer has there goes with its staging directory, which a log would keep.
    let export = scratch.path("export");
    let job = export.join(".thalweg-staging").join("07".repeat(16));
    std::fs::create_dir_all(&job).expect("a staging directory");
    let below = format!(".thalweg-staging/{}/x", "07".repeat(16));
    for (level, path) in [(HeldLevel::Durable, ".thalweg-staging/x"), (HeldLevel::Memory, below.as_str())] {
        assert!(refused(open_at(path, produce_as(level))), "{path}");
    }
    std::fs::remove_dir(&job).expect("nothing is in there");
    std::fs::remove_dir(export.join(".thalweg-staging")).expect("nothing is in there");
    assert!(daemon.is_alive());
    let place = daemon.place("data", "x");
    let honest = sender(&scratch, &place, "m", SenderWishes::default());
    push_all(&honest, "m", 0, 3, 100);
    honest.finish(Some(LIMIT)).expect("an end");
    assert_eq!(drain(&receiver(&scratch, &place, by(FramePolicy::Block)), 100).count("m"), 3);
}

#[test]
fn a_log_that_is_to_have_more_than_its_export_may_give_is_refused_with_that() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let flagged = format!("{}:max-spill=2MiB", export.display());
    let daemon = scratch.daemon_with(&[("data", flagged.as_ref())], &["--max-spill", "1GiB"]);
    let asks = |spill_bytes: u64| {
        let mut open = open(produce_as(HeldLevel::Durable));
        if let Request::Frames { frames, .. } = &mut open.request {
            frames.channel.spill_bytes = Some(spill_bytes);
        }
        HostileClient::begin(&daemon.ticket, &daemon.address()).open(open)
    };
    let refused = asks(4 << 20).unwrap_err();
    assert!(refused.contains("at most 2097152 bytes of a log of frames"), "{refused}");
    assert!(!export.join("x.frames").exists(), "it was made");
    asks(2 << 20).expect("as much as it may have");
}

#[test]
fn windows_of_all_producers_together_stay_within_the_memory_of_the_hub() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let memory = ["--frames-memory", "16MiB"];
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &export)], &memory, |command| command);
    let place = daemon.place("data", "x");
    let taker =
        receiver(&scratch, &place, ReceiverWishes { channel: small(1 << 20), ..by(FramePolicy::Block) });
    let notes = Arc::new(AtomicUsize::new(0));
    let open = |number: usize| {
        let heard = notes.clone();
        let events: Events = Arc::new(move |event| {
            heard.fetch_add(usize::from(matches!(event, Event::Note(_))), Ordering::Relaxed);
        });
        let producer = Some(format!("m{number}"));
        let wishes = SenderWishes { producer, channel: small(1 << 20), events, ..SenderWishes::default() };
        Sender::open(os(&place).as_os_str(), how(&daemon.ticket), wishes)
    };
    // Each asks for 64 MiB, and gets what there is.
    let mut makers = Vec::new();
    let refused = loop {
        match open(makers.len()) {
            Ok(maker) => makers.push(maker),
            Err(failure) => break failure,
        }
        assert!(makers.len() < 256, "more windows than there is memory for");
    };
    assert_eq!(refused.kind, FailureKind::Busy, "{refused}");
    assert!(refused.cause.contains("--window") && refused.cause.contains("--frames-memory"), "{refused}");
    assert!(makers.len() >= 10 && notes.load(Ordering::Relaxed) > makers.len(), "{} makers", makers.len());
    for maker in &makers {
        maker.push(NewFrame { payload: vec![7; 1000].into(), ..NewFrame::default() }, Some(LIMIT)).unwrap();
    }
    let last = makers.pop().unwrap();
    last.finish(Some(LIMIT)).unwrap();
    drop(last);
    // What it had is there for another.
    let until = Instant::now() + LIMIT;
    let again = loop {
        match open(1000) {
            Ok(maker) => break maker,
            Err(failure) => assert!(Instant::now() < until, "{failure}"),
        }
    };
    makers.push(again);
    let (all, mut came) = (makers.len(), 0);
    makers.iter().for_each(|maker| drop(maker.finish(Some(LIMIT)).unwrap()));
    loop {
        match taker.next(Some(LIMIT)).unwrap() {
            Some(Delivery::Frame(_)) => came += 1,
            Some(Delivery::End(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(came, all, "one of each but the last to come");
}
