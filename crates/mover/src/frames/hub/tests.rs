use super::*;
use thalweg_wire::Digest;
use thalweg_wire::message::{Consume, FrameFrom, FramePolicy, GroupSet};

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
        if let Action::Write(place, record) = action {
            let at = Location { file: 0, offset: place * 1000, bytes: 1000 };
            channel.written(place, at, &record, 0);
            let item = match record {
                Record::Frame(held) => Item::Frame(Box::new(held.head.clone())),
                Record::Note(item) => item,
            };
            all.push((place, item, at));
        }
    }
    all
}

fn push(channel: &mut Channel, epoch: u16, sequence: u64, set: (u64, u32)) {
    let head = FrameHead {
        producer: producer(),
        sequence,
        set: Some(set),
        time_ns: 0,
        deadline_ns: None,
        dtype: String::new(),
        shape: Vec::new(),
        metadata: Vec::new(),
        payload_bytes: 3,
        digest: Digest(*blake3::hash(b"abc").as_bytes()),
        stamp: None,
    };
    let item = Item::Frame(Box::new(head));
    assert!(channel.begin(1, epoch, sequence, &item).unwrap());
    channel.arrived(1, epoch, sequence, item, Payload::from(b"abc".to_vec()), 0);
}

/// The producer has a link; the epoch in which it may send.
fn begun(channel: &mut Channel) -> u16 {
    channel.attach(1, &producer(), Some(0), HeldLevel::Memory, WINDOW).unwrap();
    let mut stands = None;
    while let Some(action) = channel.take_action() {
        if let Action::Tell(_, FramesMessage::Stand { epoch, next: 0 }) = action {
            stands = Some(epoch);
        }
    }
    stands.unwrap()
}

#[test]
fn a_new_hub_has_the_declared_sets_of_the_log_and_ends_them_if_nobody_comes_back() {
    let mut first = recorded();
    let epoch = begun(&mut first);
    first.hear(1, FramesMessage::Declare { set: 7, frames: 3 }, 0).unwrap();
    // Said again, as after an outage: it is written once.
    first.hear(1, FramesMessage::Declare { set: 7, frames: 3 }, 0).unwrap();
    push(&mut first, epoch, 0, (7, 0));
    push(&mut first, epoch, 1, (7, 2));
    let log = written(&mut first);
    let begins = log.iter().filter(|(_, item, _)| matches!(item, Item::SetBegun { .. })).count();
    assert_eq!((log.len(), begins), (3, 1), "{log:?}");
    let mut second = recorded();
    log.into_iter().for_each(|(place, item, at)| second.restore(place, item, at));
    second.restored();
    assert_eq!(second.status().sets, [(7, 3, 2)]);
    second.give_up_absent();
    let over = written(&mut second);
    let is_told = |(_, item, _): &(u64, Item, Location)| {
        *item == Item::SetOver(SetOver { set: 7, frames: 3, taken: 2 })
    };
    assert!(over.iter().any(is_told), "{over:?}");
    assert!(second.status().sets.is_empty());
}

#[test]
fn a_set_of_which_the_log_has_all_but_the_end_is_over_at_once() {
    let mut first = recorded();
    let epoch = begun(&mut first);
    first.hear(1, FramesMessage::Declare { set: 7, frames: 2 }, 0).unwrap();
    push(&mut first, epoch, 0, (7, 0));
    push(&mut first, epoch, 1, (7, 1));
    let mut log = written(&mut first);
    assert!(matches!(log.pop(), Some((_, Item::SetOver(_), _))), "the log was cut there");
    let mut second = recorded();
    log.into_iter().for_each(|(place, item, at)| second.restore(place, item, at));
    second.restored();
    let over = written(&mut second);
    assert!(matches!(&over[..], [(_, Item::SetOver(over), _)] if over.taken == 2), "{over:?}");
}

#[test]
fn a_group_hears_of_a_set_when_no_member_has_a_frame_of_it_that_it_did_not_take() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = |who: u8| Consume {
        consumer: [who; 16],
        group: Some("workers".to_owned()),
        policy: FramePolicy::Block,
        from: FrameFrom::Start,
        instance: None,
        has: Vec::new(),
        producers: 1,
        keep_ms: 0,
    };
    let key = ConsumerKey::of(&asks(1));
    for who in [1, 2] {
        // One frame at a time for each.
        let window = Window { bytes: 1 << 20, items: 1 };
        channel.subscribe(u64::from(who) + 10, &asks(who), window).unwrap();
        let stand = FramesMessage::Stand { epoch: 1, next: 0 };
        channel.hear_consumer(u64::from(who) + 10, &key, &[who; 16], stand, 0).unwrap();
    }
    let epoch = begun(&mut channel);
    channel.hear(1, FramesMessage::Declare { set: 7, frames: 3 }, 0).unwrap();
    push(&mut channel, epoch, 0, (7, 0));
    push(&mut channel, epoch, 1, (7, 2));
    let next = |channel: &mut Channel, who: u8| match channel.next(u64::from(who) + 10, &key, &[who; 16], 0) {
        Some(Work::Send { what: What::Note(item), .. }) => Some(item),
        Some(Work::Send { what: What::Frame(held), .. }) => Some(Item::Frame(Box::new(held.head.clone()))),
        _ => None,
    };
    let take = |channel: &mut Channel, who: u8, next: u64| {
        let taken = FramesMessage::Taken { next };
        channel.hear_consumer(u64::from(who) + 10, &key, &[who; 16], taken, 0).unwrap();
    };
    for who in [1, 2] {
        assert!(matches!(next(&mut channel, who), Some(Item::Frame(_))));
    }
    channel.hear(1, FramesMessage::Finish { frames: 2 }, 0).unwrap();
    take(&mut channel, 1, 1);
    let told = next(&mut channel, 1);
    assert!(!matches!(told, Some(Item::GroupSet(_))), "the other has one that it did not take: {told:?}");
    take(&mut channel, 2, 1);
    let wanted = Item::GroupSet(GroupSet {
        over: SetOver { set: 7, frames: 3, taken: 2 },
        delivered: 2,
        missing: vec![(1, 2)],
    });
    assert_eq!(next(&mut channel, 2), Some(wanted.clone()));
    // Behind what it was handed before.
    take(&mut channel, 1, 2);
    assert_eq!(next(&mut channel, 1), Some(wanted));
}
