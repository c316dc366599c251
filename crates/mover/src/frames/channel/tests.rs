//! A channel, without links and without a disk: what it asks for is answered at once, or not at all.

mod consumers;

mod next_hub;

mod producers;

mod sets;

mod spilled;

use super::*;
use thalweg_wire::Digest;
use thalweg_wire::message::{Consume, FrameFrom, FramePolicy};

const WINDOW: Window = Window { bytes: 1 << 20, items: 64 };

fn producer() -> ProducerId {
    ProducerId::new("cam").unwrap()
}

fn recorded() -> Channel {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    channel.set_spill(SpillTerms { is_recorded: true, bytes_max: 1 << 30 });
    channel
}

/// What a channel asks to be written, in order; written at once.
fn written(channel: &mut Channel) -> Vec<(u64, Item, Location)> {
    let mut all = Vec::new();
    while let Some(action) = channel.take_action() {
        if let Action::Write(position, record) = action {
            let at = Location { file: 0, offset: position * 1000, bytes: 1000 };
            channel.written(position, at, &record, 0);
            let item = match record {
                Record::Frame(held) => Item::Frame(Box::new(held.head.clone())),
                Record::Note(item) => item,
            };
            all.push((position, item, at));
        }
    }
    all
}

fn push(channel: &mut Channel, epoch: u16, sequence: u64, set: (u64, u32)) {
    let item = frame(&producer(), sequence, Some(set), 3);
    assert!(channel.begin(1, epoch, sequence, &item).unwrap());
    channel.arrived(1, epoch, sequence, item, Payload::from(b"abc".to_vec()), 0);
}

fn frame(producer: &ProducerId, sequence: u64, set: Option<(u64, u32)>, payload_bytes: u64) -> Item {
    let digest = Digest(*blake3::hash(b"abc").as_bytes());
    let bare = FrameHead::bare(producer.clone(), sequence, payload_bytes, digest);
    Item::Frame(Box::new(FrameHead { set, ..bare }))
}

/// The producer has a link; the epoch in which it may send.
fn begun(channel: &mut Channel) -> u16 {
    let (epoch, next) = attached(channel, 1, &producer(), Some(0));
    assert_eq!(next, 0);
    epoch
}

/// A producer has a link; the epoch in which it may send, and the sequence that it goes on with.
fn attached(channel: &mut Channel, attachment: u64, id: &ProducerId, first: Option<u64>) -> (u16, u64) {
    channel.attach(attachment, (id, [1; 16]), first, HeldLevel::Memory, WINDOW).unwrap();
    let mut stands = None;
    while let Some(action) = channel.take_action() {
        if let Action::Tell(to, FramesMessage::Stand { epoch, next }) = action
            && to == attachment
        {
            stands = Some((epoch, next));
        }
    }
    stands.unwrap()
}

fn asks(who: u8, group: Option<&str>, policy: FramePolicy) -> Consume {
    Consume {
        consumer: [who; 16],
        process: [1; 16],
        name: None,
        group: group.map(str::to_owned),
        policy,
        from: FrameFrom::Start,
        instance: None,
        has: Vec::new(),
        producers: 1,
        keep_ms: 0,
        patience_ms: 0,
    }
}

/// A consumer stands by this attachment.
fn subscribed(channel: &mut Channel, attachment: u64, asks: &Consume, window: Window) -> ConsumerKey {
    channel.subscribe(attachment, asks, window).unwrap();
    let key = ConsumerKey::of(asks);
    let stand = FramesMessage::Stand { epoch: 1, next: 0 };
    channel.hear_consumer(attachment, &key, &asks.consumer, stand, 0).unwrap();
    key
}

/// Sets that were told to be over, among what a channel put into its log.
fn sets_over(channel: &mut Channel) -> Vec<SetOver> {
    let over = |(_, item, _)| match item {
        Item::SetOver(over) => Some(over),
        _ => None,
    };
    written(channel).into_iter().filter_map(over).collect()
}

/// The next hub over this log: its number, and what it finds.
fn next_hub(serial: u64, log: &[(u64, Item, Location)]) -> Channel {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, serial);
    channel.set_spill(SpillTerms { is_recorded: true, bytes_max: 1 << 30 });
    log.iter().cloned().for_each(|(position, item, at)| channel.restore(position, item, at));
    channel.restored();
    channel
}

/// Takes all that a consumer is handed: `(producer, first, end)` of what was delivered, of what was named as lost, and
/// who is over.
fn takes(
    channel: &mut Channel,
    attachment: u64,
    asks: &Consume,
    next: &mut u64,
) -> [Vec<(String, u64, u64)>; 3] {
    let (key, mut all) = (ConsumerKey::of(asks), [const { Vec::new() }; 3]);
    while let Some(Work::Send { number, what, .. }) = channel.next(attachment, &key, &asks.consumer, 0) {
        match what {
            What::Frame(held) => {
                let sequence = held.head.sequence;
                all[0].push((held.head.producer.as_str().to_owned(), sequence, sequence + 1));
            }
            What::Note(Item::Lost(lost)) => {
                all[1].push((lost.producer.as_str().to_owned(), lost.first, lost.end));
            }
            What::Note(Item::ProducerOver { producer, frames, .. }) => {
                all[2].push((producer.as_str().to_owned(), frames, frames));
            }
            What::Note(_) => {}
        }
        *next = number + 1;
        let taken = FramesMessage::Taken { next: *next };
        channel.hear_consumer(attachment, &key, &asks.consumer, taken, 0).unwrap();
    }
    all
}

/// A consumer comes by this attachment, is handed what there is, as words, takes so many of those, and goes.
fn stays_for(channel: &mut Channel, attachment: u64, who: u8, takes: u64) -> Vec<String> {
    let asks = asks(who, None, FramePolicy::Block);
    let key = subscribed(channel, attachment, &asks, WINDOW);
    let mut had = Vec::new();
    loop {
        match channel.next(attachment, &key, &asks.consumer, 0) {
            None => break,
            Some(Work::Send { what: What::Frame(held), .. }) => {
                had.push(format!("frame {}", held.head.sequence))
            }
            Some(Work::Send { what: What::Note(item), .. }) => had.push(match item {
                Item::Lost(lost) => format!("lost {}..{} {:?}", lost.first, lost.end, lost.reason),
                Item::ProducerOver { is_gone, .. } => format!("over, gone {is_gone}"),
                Item::SetOver(over) => format!("set {} over", over.set),
                item => format!("{item:?}"),
            }),
            Some(Work::Read { number, at, position }) => {
                let Item::Frame(head) = frame(&producer(), position, None, 3) else { unreachable!() };
                let held = HeldFrame { head: *head, payload: Payload::from(b"abc".to_vec()) };
                channel.loaded(&key, &asks.consumer, number, at, Some(Arc::new(held)));
            }
        }
    }
    channel.hear_consumer(attachment, &key, &asks.consumer, FramesMessage::Taken { next: takes }, 0).unwrap();
    channel.leave(attachment, &key, &asks.consumer);
    had
}
