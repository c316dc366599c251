//! Channels without sessions: what is said to an attachment is kept.

use super::*;
use crate::frames::channel::{Channel, What};
use crate::frames::lane::{Window, cost};
use crate::frames::spill::SpillTerms;
use crate::frames::{FrameFrom, Payload, READ_SIZE, SYNC_LOG};
use crate::plan;
use crate::run::Outbox;
use crate::run::frames::hub_consumer::HubConsumer;
use crate::run::frames::spill_files::{Heard, Job};
use crate::run::frames::windows::Lease;
use crate::run::transfer::Transfer;
use std::sync::mpsc;
use thalweg_sys::Dir;
use thalweg_wire::Digest;
use thalweg_wire::message::{
    ChannelTerms, Consume, FrameHead, FramePolicy, FrameRole, FrameTerms, FramesMessage, HeldLevel, Item,
    Terms, TransferMessage, TransferNumber,
};

/// Keeps what was said.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<TransferMessage>>>);

impl Outbox for Said {
    fn say(&self, _: TransferNumber, message: TransferMessage) {
        self.0.lock().unwrap().push(message);
    }

    fn work(&self) {}
}

/// What a hub gives each of its channels.
fn spare() -> (Arc<Windows>, Shelf) {
    (Windows::new(64 << 20), Shelf::new(64 << 20))
}

fn asks(channel: &ChannelWishes, role: FrameRole) -> FrameTerms {
    FrameTerms { window_bytes: 1 << 20, window_items: 64, channel: *channel, role }
}

#[test]
fn a_hub_that_goes_on_with_a_recorded_log_gives_it_no_less_than_it_had() {
    let directory = tempfile::tempdir().unwrap();
    let opened = |spill_bytes| {
        let place = StorePlace::of(Dir::open(directory.path()).unwrap(), b"x".to_vec());
        let wishes = ChannelWishes { spill_bytes, is_recorded: false, ..ChannelWishes::default() };
        let channel = HubChannel::new(&wishes, 1 << 20, Some(place), spare());
        channel.open_found_store(&wishes).map(|()| (channel, wishes))
    };
    let (channel, wishes) = opened(Some(100 << 30)).unwrap();
    assert_eq!(channel.lock().machine.spill(), None, "nothing was recorded here yet");
    channel.open_store(&ChannelWishes { is_recorded: true, ..wishes }).unwrap();
    channel.close();
    // Whoever comes first, also to the one after: with a wish of its own or none.
    for (asks, bytes_max) in [(None, 100 << 30), (Some(1 << 20), 100 << 30), (Some(200 << 30), 200 << 30)] {
        for asks in [asks, None] {
            let (channel, _) = opened(asks).unwrap();
            let known = channel.lock().machine.spill();
            assert_eq!(known, Some(SpillTerms { is_recorded: true, bytes_max }));
            channel.close();
        }
    }
    std::fs::write(directory.path().join("x.frames/recorded"), "much").unwrap();
    let refused = opened(None).map(drop).unwrap_err();
    assert_eq!((refused.kind, &*refused.operation), (FailureKind::Damage, READ_SIZE), "{refused}");
    let path = refused.path.as_ref().map(|path| path.as_bytes());
    assert_eq!(path, Some(&b"x.frames/recorded"[..]), "{refused}");
}

#[test]
fn a_log_gets_no_more_than_its_place_may_give_and_one_that_had_more_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let opened = |spill_bytes, spill_bytes_max| {
        let place = StorePlace::of(Dir::open(directory.path()).unwrap(), b"x".to_vec());
        let place = StorePlace { spill_bytes_max, ..place };
        let wishes = ChannelWishes { spill_bytes, is_recorded: true, ..ChannelWishes::default() };
        let channel = HubChannel::new(&wishes, 1 << 20, Some(place), spare());
        let known = channel.open_store(&wishes).map(|()| channel.lock().machine.spill());
        channel.close();
        known.map(|known| known.expect("a log").bytes_max)
    };
    let refused = opened(Some(3 << 30), 2 << 30).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Usage, "{refused}");
    assert!(refused.cause.contains("at most 2147483648 bytes of a log of frames"), "{refused}");
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "something was made");
    // Without a wish it is what there may be.
    assert_eq!(opened(None, 2 << 30).unwrap(), 2 << 30);
    assert!(opened(Some(3 << 30), 2 << 30).is_err());
    assert_eq!(opened(Some(3 << 30), 4 << 30).unwrap(), 3 << 30);
    for asks in [None, Some(1 << 20), Some(3 << 30)] {
        assert_eq!(opened(asks, 1 << 30).unwrap(), 3 << 30);
    }
}

fn cam() -> ProducerId {
    ProducerId::new("cam").unwrap()
}

fn produce() -> FrameRole {
    FrameRole::Produce {
        producer: cam(),
        process: [1; 16],
        first: Some(0),
        level: HeldLevel::Memory,
        keep_ms: 0,
    }
}

fn consume(who: u8) -> FrameRole {
    FrameRole::Consume(Box::new(Consume {
        consumer: [who; 16],
        process: [1; 16],
        name: None,
        group: None,
        policy: FramePolicy::Block,
        from: FrameFrom::Start,
        instance: None,
        has: Vec::new(),
        producers: 1,
        keep_ms: 0,
        patience_ms: 0,
    }))
}

/// A frame of three bytes comes by this attachment.
fn push(channel: &HubChannel, (attachment, epoch): (u64, u16), sequence: u64) {
    let digest = Digest(*blake3::hash(b"abc").as_bytes());
    let item = Item::Frame(Box::new(FrameHead::bare(cam(), sequence, 3, digest)));
    assert!(channel.act(|machine| machine.begin(attachment, epoch, sequence, &item)).unwrap());
    let payload = Payload::from(b"abc".to_vec());
    channel.act(|machine| machine.arrived(attachment, epoch, sequence, item, payload, 0));
}

#[test]
fn a_log_that_cannot_be_synced_ends_every_producer_and_consumers_get_what_is_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let place = StorePlace::of(Dir::open(directory.path()).unwrap(), b"x".to_vec());
    let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    let channel = HubChannel::new(&wishes, 1 << 20, Some(place), spare());
    let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
    // One for whom a frame counts when the hub has it in memory.
    let said = Said::default();
    let made = asks(&wishes, produce());
    channel.attach(TransferNumber(1), terms.clone(), &made, Box::new(said.clone())).unwrap();
    let (attachment, epoch) = (*channel.lock().attachments.keys().next().unwrap(), 1);
    (0..2).for_each(|sequence| push(&channel, (attachment, epoch), sequence));
    let takes = asks(&wishes, consume(1));
    let attached = channel.attach(TransferNumber(2), terms.clone(), &takes, Box::new(Said::default()));
    let Attached::Consumer(consumer, _) = attached.unwrap() else { panic!("a consumer") };
    let stand = FramesMessage::Stand { epoch: 1, next: 0 };
    consumer.hear(TransferMessage::Frames(stand)).unwrap();
    let next = || consumer.next_item(0, &|| false).map(|(_, _, what)| what);
    assert!(matches!(next(), Some(What::Frame(held)) if held.head.sequence == 0));

    let why = Failure::new(FailureKind::Io, SYNC_LOG, "Input/output error");
    channel.broken(why.clone());
    let aborts = |message: &TransferMessage| matches!(message, TransferMessage::Abort(told) if *told == why);
    assert!(said.0.lock().unwrap().iter().any(aborts), "its producer waits for good");
    assert!(matches!(next(), Some(What::Frame(held)) if held.head.sequence == 1));
    let gone = next();
    assert!(
        matches!(&gone, Some(What::Note(Item::ProducerOver { is_gone: true, frames: 2, .. }))),
        "{gone:?}"
    );
    assert!(matches!(next(), Some(What::Note(Item::End))));
    let again = channel.attach(TransferNumber(3), terms, &made, Box::new(Said::default()));
    assert_eq!(again.err(), Some(why), "nobody begins what cannot go on");
    channel.close();
}

#[test]
fn who_opens_a_channel_that_is_being_closed_waits_until_its_log_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::new(64 << 20);
    let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    let open = || {
        let place = StorePlace::of(Dir::open(directory.path()).unwrap(), b"x".to_vec());
        hub.channel(&("data".to_owned(), b"x".to_vec()), &wishes, Some(place), "")
    };
    let channel = open().unwrap();
    channel.open_store(&wishes).unwrap();
    // Its last sync takes as long as it may.
    let (writes, syncs) = channel.lock().writer.take().unwrap();
    let (jobs, queue) = mpsc::channel();
    let (tells, closing) = mpsc::channel();
    let (ends, ended) = mpsc::channel::<()>();
    let slow = std::thread::spawn(move || {
        while !matches!(queue.recv(), Ok(Job::Stop) | Err(_)) {}
        tells.send(()).unwrap();
        let _ = ended.recv();
        drop(writes);
        syncs.join().unwrap();
    });
    channel.lock().writer = Some((jobs, slow));
    drop(channel);
    std::thread::scope(|scope| {
        scope.spawn(|| hub.reap(Duration::ZERO));
        closing.recv().unwrap();
        let (opens, opened) = mpsc::channel();
        let open = &open;
        scope.spawn(move || opens.send(open().map(drop)).unwrap());
        let early = opened.recv_timeout(Duration::from_millis(100));
        ends.send(()).unwrap();
        assert!(early.is_err(), "it does not wait: {early:?}");
        assert_eq!(opened.recv().unwrap(), Ok(()));
    });
    hub.close();
}

#[test]
fn a_channel_that_is_at_work_is_counted_when_it_is_through_and_left_out_only_if_it_never_is() {
    let hub = Hub::new(3 * limits::CHANNEL_BYTES);
    let key = |name: &[u8]| ("data".to_owned(), name.to_vec());
    let open = |name: &[u8]| hub.channel(&key(name), &ChannelWishes::default(), None, "").unwrap();
    let (_free, brief, stuck) = (open(b"free"), open(b"brief"), open(b"stuck"));
    let mut working = Some(brief.lock());
    let stands_still = stuck.lock();
    let mut pauses = 0;
    let counted = hub.counts_after(|| {
        pauses += 1;
        if pauses == 3 {
            drop(working.take());
        }
    });
    drop(stands_still);
    let counted: Vec<_> = counted.into_iter().map(|(key, counts)| (key, counts.is_some())).collect();
    assert_eq!(counted, [(key(b"brief"), true), (key(b"free"), true), (key(b"stuck"), false)]);
}

#[test]
fn channels_that_are_over_give_their_memory_to_the_next_recorded_ones_too() {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::new(4 * limits::CHANNEL_BYTES);
    let open = |name: &str| {
        let place = StorePlace::of(Dir::open(directory.path()).unwrap(), name.as_bytes().to_vec());
        let key = ("data".to_owned(), name.as_bytes().to_vec());
        hub.channel(&key, &ChannelWishes::default(), Some(place), "")
    };
    let window = Window { bytes: 1 << 20, items: 64 };
    for number in 0..10u64 {
        let channel = open(&format!("scan{number}")).unwrap();
        assert_eq!(channel.memory_bytes_max, limits::CHANNEL_BYTES, "{number}");
        let frames = number % 2;
        if frames > 0 {
            let wishes = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
            channel.open_store(&wishes).unwrap();
        }
        let id = cam();
        let attach =
            |machine: &mut Channel| machine.attach(1, (&id, [1; 16]), Some(0), HeldLevel::Memory, window);
        channel.act(attach).unwrap();
        (0..frames).for_each(|sequence| push(&channel, (1, 1), sequence));
        channel.act(|machine| machine.hear(1, FramesMessage::Finish { frames }, 0)).unwrap();
        channel.act(|machine| machine.detach(1));
    }
    // Somebody is at these.
    let held: Vec<_> = (0..4).map(|number| open(&format!("held{number}")).unwrap()).collect();
    let refused = open("one more").err().unwrap();
    assert_eq!(refused.kind, FailureKind::Busy);
    assert!(refused.cause.contains("held0, held1, held2, held3"), "{refused}");
    drop(held);
    hub.close();
}

/// What others reach is not there to who reaches one directory.
#[test]
fn who_finds_no_room_hears_only_of_channels_in_the_directory_that_is_theirs() {
    let hub = Hub::new(3 * limits::CHANNEL_BYTES);
    let open = |export: &str, path: &str, beneath: &str| {
        let key = (export.to_owned(), path.as_bytes().to_vec());
        hub.channel(&key, &ChannelWishes::default(), None, beneath)
    };
    let others = [("data", "run7/mine"), ("data", "run77/secret"), ("other", "run7/secret")];
    let held: Vec<_> = others.iter().map(|(export, path)| open(export, path, "").unwrap()).collect();
    let said = |beneath: &str| open("data", "run7/more", beneath).err().unwrap().cause;
    assert!(said("run7").ends_with("other channels: mine, and others"), "{}", said("run7"));
    assert!(said("").ends_with("other channels: run7/mine, run77/secret, and others"), "{}", said(""));
    assert!(said("run8").ends_with("other channels"), "{}", said("run8"));
    drop(held);
    hub.close();
}

#[test]
fn what_a_consumer_left_in_memory_keeps_its_window_until_the_next_one_comes_or_it_is_gone() {
    let wishes = ChannelWishes::default();
    // Memory of the channel for three of them.
    let memory_bytes = 3 * cost(3, 0);
    let channel = HubChannel::new(&wishes, memory_bytes, None, spare());
    let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
    let attach = |number: u16, role: FrameRole| {
        let frames = asks(&wishes, role);
        channel.attach(TransferNumber(number), terms.clone(), &frames, Box::new(Said::default())).unwrap()
    };
    attach(1, produce());
    let attachment = *channel.lock().attachments.keys().next().unwrap();
    let comes = |number: u16| match attach(number, consume(number as u8)) {
        Attached::Consumer(consumer, _) => consumer,
        Attached::Producer(_) => panic!("a consumer"),
    };
    let takes = |consumer: &HubConsumer| {
        let stand = FramesMessage::Stand { epoch: 1, next: 0 };
        consumer.hear(TransferMessage::Frames(stand)).unwrap();
        while consumer.next_item(0, &|| false).is_some() {}
    };
    (0..3).for_each(|sequence| push(&channel, (attachment, 1), sequence));
    let first = comes(2);
    takes(&first);
    (3..6).for_each(|sequence| push(&channel, (attachment, 1), sequence));
    let kept = || channel.lock().untaken.iter().map(Lease::bytes).sum::<u64>();
    assert_eq!((kept(), channel.status().memory_bytes), (0, memory_bytes));
    first.give_up();
    assert_eq!((kept(), channel.status().memory_bytes), (1 << 20, 2 * memory_bytes));
    let second = comes(3);
    assert_eq!(kept(), 0, "the window of the next is for that");
    comes(4).give_up();
    assert_eq!((kept(), channel.status().memory_bytes), (1 << 20, 2 * memory_bytes));
    takes(&second);
    assert_eq!((kept(), channel.status().memory_bytes), (0, 0));
    channel.close();
}

#[test]
fn a_producer_says_that_a_channel_is_unattended_also_if_another_one_opened_it() {
    let channel = HubChannel::new(&ChannelWishes::default(), 1 << 20, None, spare());
    let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
    let unattended = ChannelWishes { is_unattended: true, ..ChannelWishes::default() };
    for (number, role, is_unattended) in [(1, consume(1), false), (2, produce(), true)] {
        let frames = asks(&unattended, role);
        let outbox = Box::new(Said::default());
        channel.attach(TransferNumber(number), terms.clone(), &frames, outbox).unwrap();
        let kept = ChannelTerms { memory_bytes: 1 << 20, spill_bytes: None, is_unattended };
        assert_eq!(channel.terms(), kept);
    }
    channel.close();
}

#[test]
fn who_has_ended_his_session_has_no_window_while_his_place_is_kept() {
    let wishes = ChannelWishes::default();
    let channel = HubChannel::new(&wishes, 1 << 20, None, spare());
    let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
    let frames = asks(&wishes, consume(2));
    let attached = channel.attach(TransferNumber(1), terms, &frames, Box::new(Said::default())).unwrap();
    let leased = || {
        let state = channel.lock();
        state.attachments.values().filter_map(|linked| linked.lease.as_ref()).map(Lease::bytes).sum::<u64>()
    };
    assert_eq!(leased(), 1 << 20);
    attached.free_window();
    assert_eq!(leased(), 0);
    assert!(!channel.lock().machine.is_idle(), "its place is kept");
    channel.close();
}
