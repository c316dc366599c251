use super::*;
use thalweg_wire::Digest;
use thalweg_wire::message::{Consume, FrameFrom, FramePolicy, GroupSet, LossReason, LostRange};

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
fn attached(channel: &mut Channel, link: u64, id: &ProducerId, first: Option<u64>) -> (u16, u64) {
    channel.attach(link, (id, [1; 16]), first, HeldLevel::Memory, WINDOW).unwrap();
    let mut stands = None;
    while let Some(action) = channel.take_action() {
        if let Action::Tell(to, FramesMessage::Stand { epoch, next }) = action
            && to == link
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
        group: group.map(str::to_owned),
        policy,
        from: FrameFrom::Start,
        instance: None,
        has: Vec::new(),
        producers: 1,
        keep_ms: 0,
    }
}

/// A consumer stands on this link.
fn subscribed(channel: &mut Channel, link: u64, asks: &Consume, window: Window) -> ConsumerKey {
    channel.subscribe(link, asks, window).unwrap();
    let key = ConsumerKey::of(asks);
    let stand = FramesMessage::Stand { epoch: 1, next: 0 };
    channel.hear_consumer(link, &key, &asks.consumer, stand, 0).unwrap();
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

#[test]
fn a_set_is_not_over_while_frames_of_it_come_from_another_producer_than_who_declared_it() {
    let other = ProducerId::new("dog").unwrap();
    // The other one's frame was taken, is there as far as its head, or is the last that lacks.
    for (taken_before, begun_before) in [(true, false), (false, true)] {
        let mut channel = recorded();
        let epoch = begun(&mut channel);
        let (theirs, _) = attached(&mut channel, 2, &other, None);
        channel.hear(1, FramesMessage::Declare { set: 7, frames: 3 }, 0).unwrap();
        push(&mut channel, epoch, 0, (7, 0));
        let give = |channel: &mut Channel, sequence: u64, is_begun: bool| {
            let item = frame(&other, sequence, Some((7, sequence as u32 + 1)), 3);
            assert!(is_begun || channel.begin(2, theirs, sequence, &item).unwrap());
            channel.arrived(2, theirs, sequence, item, Payload::from(b"abc".to_vec()), 0);
        };
        if taken_before {
            give(&mut channel, 0, false);
        }
        if begun_before {
            assert!(channel.begin(2, theirs, 0, &frame(&other, 0, Some((7, 1)), 3)).unwrap());
        }
        channel.hear(1, FramesMessage::Finish { frames: 1 }, 0).unwrap();
        assert_eq!(sets_over(&mut channel), [], "more of it comes");
        if begun_before {
            give(&mut channel, 0, true);
        }
        assert_eq!(sets_over(&mut channel), [], "one lacks, and may come");
        give(&mut channel, 1, false);
        assert_eq!(sets_over(&mut channel), [SetOver { set: 7, frames: 3, taken: 3 }]);
    }
}

#[test]
fn a_set_is_over_when_all_that_made_it_have_ended_whoever_declared_it() {
    let other = ProducerId::new("dog").unwrap();
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    let (theirs, _) = attached(&mut channel, 2, &other, None);
    let item = frame(&other, 0, Some((7, 1)), 3);
    assert!(channel.begin(2, theirs, 0, &item).unwrap());
    channel.arrived(2, theirs, 0, item, Payload::from(b"abc".to_vec()), 0);
    channel.hear(2, FramesMessage::Finish { frames: 1 }, 0).unwrap();
    assert_eq!(sets_over(&mut channel), [], "nobody said how many it has");
    channel.hear(1, FramesMessage::Declare { set: 7, frames: 3 }, 0).unwrap();
    push(&mut channel, epoch, 0, (7, 0));
    assert_eq!(sets_over(&mut channel), []);
    channel.hear(1, FramesMessage::Finish { frames: 1 }, 0).unwrap();
    assert_eq!(sets_over(&mut channel), [SetOver { set: 7, frames: 3, taken: 2 }]);
}

#[test]
fn a_log_that_is_not_written_holds_a_bounded_number_of_bytes_that_consumers_took_meanwhile() {
    const FRAME: u64 = 4 << 20;
    let mut channel = Channel::new(&ChannelWishes::default(), 16 * FRAME, 0);
    channel.set_spill(SpillTerms { is_recorded: false, bytes_max: 1 << 40 });
    let asks = asks(1, None, FramePolicy::Spill);
    let key = subscribed(&mut channel, 11, &asks, Window { bytes: FRAME, items: 1 });
    let epoch = begun(&mut channel);
    let (mut pushed, mut taken, mut handed) = (0, 0, 0);
    while taken < 200 {
        if !channel.is_held_up(1) {
            let item = frame(&producer(), pushed, None, FRAME);
            assert!(channel.begin(1, epoch, pushed, &item).unwrap());
            channel.arrived(1, epoch, pushed, item, Payload::default(), 0);
            pushed += 1;
        } else {
            assert!(matches!(channel.next(11, &key, &asks.consumer, 0), Some(Work::Send { .. })));
            taken += 1;
            let told = FramesMessage::Taken { next: taken };
            channel.hear_consumer(11, &key, &asks.consumer, told, 0).unwrap();
        }
        // The disk stands still: nothing of it is ever told to be written.
        while let Some(action) = channel.take_action() {
            handed += u64::from(matches!(action, Action::Write(..)));
        }
    }
    assert!(handed >= 1 && handed * FRAME <= 16 << 20, "{handed} frames wait to be written");
}

#[test]
fn a_frame_that_was_read_for_a_lane_that_began_anew_meanwhile_is_not_taken_for_another() {
    let mut first = recorded();
    let epoch = begun(&mut first);
    (0..3).for_each(|number| push(&mut first, epoch, number, (7, number as u32)));
    let mut channel = recorded();
    written(&mut first).into_iter().for_each(|(place, item, at)| channel.restore(place, item, at));
    channel.restored();
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let read = |channel: &mut Channel, link: u64| match channel.next(link, &key, &asks.consumer, 0) {
        Some(Work::Read { number, at, place }) => (number, at, place),
        other => panic!("{other:?}"),
    };
    let held = |place: u64| {
        let Item::Frame(head) = frame(&producer(), place, Some((7, place as u32)), 3) else { unreachable!() };
        Some(Arc::new(Held { head: *head, payload: Payload::from(b"abc".to_vec()) }))
    };
    let (number, at, place) = read(&mut channel, 11);
    channel.loaded(&key, &asks.consumer, number, at, held(place));
    assert!(matches!(channel.next(11, &key, &asks.consumer, 0), Some(Work::Send { number: 0, .. })));
    channel.hear_consumer(11, &key, &asks.consumer, FramesMessage::Taken { next: 1 }, 0).unwrap();
    let (number, at, place) = read(&mut channel, 11);
    assert_eq!((number, place), (1, 1));
    // Another process under its name begins with number 0, which is that frame.
    channel.unlink_consumer(11, &key, &asks.consumer);
    subscribed(&mut channel, 12, &asks, WINDOW);
    channel.loaded(&key, &asks.consumer, number, at, held(place));
    for wanted in 1..3 {
        let (number, at, place) = read(&mut channel, 12);
        assert_eq!((number, place), (wanted - 1, wanted), "each is read for its own place");
        channel.loaded(&key, &asks.consumer, number, at, held(place));
        let Some(Work::Send { what: What::Frame(held), .. }) = channel.next(12, &key, &asks.consumer, 0)
        else {
            panic!("it is sent")
        };
        assert_eq!(held.head.sequence, wanted);
    }
}

#[test]
fn a_new_process_under_a_name_goes_on_behind_what_consumers_have_from_an_earlier_hub() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let mut asks = asks(1, None, FramePolicy::Block);
    asks.has = vec![(producer(), 100)];
    asks.instance = Some(1);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let (epoch, next) = attached(&mut channel, 1, &producer(), None);
    assert_eq!(next, 100, "from 0 on they would be taken for what it has");
    push(&mut channel, epoch, 100, (7, 0));
    let Some(Work::Send { what: What::Frame(held), .. }) = channel.next(11, &key, &asks.consumer, 0) else {
        panic!("it is handed out")
    };
    assert_eq!(held.head.sequence, 100);
}

#[test]
fn who_begins_now_is_told_of_no_loss_before_that_and_misses_nothing_when_the_hub_is_another() {
    let serial = 1000;
    let mut asks = asks(1, Some("workers"), FramePolicy::Block);
    asks.from = FrameFrom::Now;
    for (instance, is_late) in [(None, false), (Some(serial), true)] {
        let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, serial);
        asks.instance = instance;
        let mut key = ConsumerKey::of(&asks);
        let subscribe = |channel: &mut Channel| subscribed(channel, 11, &asks, WINDOW);
        if !is_late {
            key = subscribe(&mut channel);
        }
        // A producer that the hub does not know, and that made frames before.
        let (epoch, _) = attached(&mut channel, 1, &producer(), Some(500));
        push(&mut channel, epoch, 500, (7, 0));
        if is_late {
            // It was at an earlier hub, and comes back a little later than the producer did.
            key = subscribe(&mut channel);
        }
        let mut came = Vec::new();
        while let Some(Work::Send { what, .. }) = channel.next(11, &key, &asks.consumer, 0) {
            came.push(match what {
                What::Note(Item::Lost(lost)) => (lost.first, lost.end),
                What::Frame(held) => (held.head.sequence, held.head.sequence),
                other => panic!("{other:?}"),
            });
        }
        // What the earlier hub had of it may be lost to the group: that is named.
        let wanted = if is_late { vec![(0, 500), (500, 500)] } else { vec![(500, 500)] };
        assert_eq!(came, wanted);
    }
}

/// The next hub over this log: its number, and what it finds.
fn next_hub(serial: u64, log: &[(u64, Item, Location)]) -> Channel {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, serial);
    channel.set_spill(SpillTerms { is_recorded: true, bytes_max: 1 << 30 });
    log.iter().cloned().for_each(|(place, item, at)| channel.restore(place, item, at));
    channel.restored();
    channel
}

/// Sequences that a consumer is handed, each taken at once, and those that are named to it as lost; what is in the log counts
/// as read.
fn handed(channel: &mut Channel, link: u64, asks: &Consume) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (key, mut frames, mut lost) = (ConsumerKey::of(asks), Vec::new(), Vec::new());
    while let Some(work) = channel.next(link, &key, &asks.consumer, 0) {
        let number = match work {
            Work::Read { number, at, place } => {
                let slot = channel.log.get(place).unwrap();
                let Kind::Frame { producer, sequence, set, .. } = &slot.kind else { panic!("{slot:?}") };
                let Item::Frame(head) = frame(producer, *sequence, *set, 3) else { unreachable!() };
                let held = Held { head: *head, payload: Payload::from(b"abc".to_vec()) };
                channel.loaded(&key, &asks.consumer, number, at, Some(Arc::new(held)));
                continue;
            }
            Work::Send { number, what: What::Frame(held), .. } => {
                frames.push(held.head.sequence);
                number
            }
            Work::Send { number, what: What::Note(item), .. } => {
                if let Item::Lost(range) = item {
                    lost.push((range.first, range.end));
                }
                number
            }
        };
        let taken = FramesMessage::Taken { next: number + 1 };
        channel.hear_consumer(link, &key, &asks.consumer, taken, number * 2_000_000_000).unwrap();
    }
    (frames, lost)
}

/// A member of a group.
fn asks_of(who: u8) -> Consume {
    asks(who, Some("workers"), FramePolicy::Block)
}

/// A hub with four frames of which a consumer wanted none, that comes then; its log, with what it is told of.
fn began_now(asks: &mut Consume) -> Vec<(u64, Item, Location)> {
    asks.from = FrameFrom::Now;
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    (0..4).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    let mut log = written(&mut channel);
    subscribed(&mut channel, 11, asks, WINDOW);
    asks.instance = Some(1);
    (4..6).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    log.extend(written(&mut channel));
    log
}

#[test]
fn who_began_now_gets_from_the_next_hub_what_came_since_then_and_nothing_older() {
    for group in [None, Some("workers")] {
        let mut asks = asks(1, group, FramePolicy::Block);
        let log = began_now(&mut asks);
        let mut channel = next_hub(100, &log);
        subscribed(&mut channel, 21, &asks, WINDOW);
        assert_eq!(handed(&mut channel, 21, &asks), (vec![4, 5], vec![]), "{group:?}");
        // Whom the hub does not know from there is told all, rather than nothing.
        let is_place = |item: &Item| matches!(item, Item::ConsumerAt(_));
        let unnoted: Vec<_> = log.into_iter().filter(|(_, item, _)| !is_place(item)).collect();
        let mut channel = next_hub(100, &unnoted);
        subscribed(&mut channel, 21, &asks, WINDOW);
        assert_eq!(handed(&mut channel, 21, &asks), (vec![0, 1, 2, 3, 4, 5], vec![]), "{group:?}");
    }
}

#[test]
fn a_group_goes_on_in_the_next_hub_behind_what_it_took() {
    let mut asks = asks_of(1);
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    channel.hear(1, FramesMessage::Declare { set: 7, frames: 6 }, 0).unwrap();
    (0..3).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    subscribed(&mut channel, 11, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 11, &asks).0, [0, 1, 2]);
    (3..5).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    let log = written(&mut channel);
    // Who is new in the group, and first there, is not who had them.
    let mut channel = next_hub(100, &log);
    let new = Consume { from: FrameFrom::Now, ..asks_of(2) };
    subscribed(&mut channel, 22, &new, WINDOW);
    assert_eq!(handed(&mut channel, 22, &new).0, [0; 0]);
    asks.instance = Some(1);
    let key = subscribed(&mut channel, 21, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 21, &asks).0, [3, 4]);
    // What it had before counts for its sets.
    let (epoch, next) = attached(&mut channel, 1, &producer(), Some(5));
    assert_eq!(next, 5);
    push(&mut channel, epoch, 5, (7, 5));
    let mut told = None;
    while let Some(Work::Send { number, what, .. }) = channel.next(21, &key, &asks.consumer, 0) {
        if let What::Note(Item::GroupSet(set)) = what {
            told = Some(set);
        }
        let taken = FramesMessage::Taken { next: number + 1 };
        channel.hear_consumer(21, &key, &asks.consumer, taken, 0).unwrap();
    }
    let over = SetOver { set: 7, frames: 6, taken: 6 };
    assert_eq!(told, Some(GroupSet { over, delivered: 6, missing: vec![] }));
}

#[test]
fn a_group_of_the_name_of_one_that_left_begins_anew_in_the_next_hub_too() {
    let mut asks = asks_of(1);
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    (0..3).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 11, &asks).0, [0, 1, 2]);
    channel.leave(11, &key, &asks.consumer);
    let log = written(&mut channel);
    asks.instance = Some(1);
    let mut channel = next_hub(100, &log);
    subscribed(&mut channel, 21, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 21, &asks).0, [0, 1, 2]);
}

#[test]
fn a_group_is_noted_no_further_than_what_all_its_members_took() {
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    let window = Window { bytes: 1 << 20, items: 2 };
    let key = subscribed(&mut channel, 12, &asks_of(2), window);
    subscribed(&mut channel, 11, &asks_of(1), WINDOW);
    (0..6).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    // One of them has two frames, and took the first.
    for _ in 0..2 {
        assert!(matches!(channel.next(12, &key, &[2; 16], 0), Some(Work::Send { .. })));
    }
    channel.hear_consumer(12, &key, &[2; 16], FramesMessage::Taken { next: 1 }, 0).unwrap();
    assert_eq!(handed(&mut channel, 11, &asks_of(1)).0, [2, 3, 4, 5]);
    let log = written(&mut channel);
    let mut next = next_hub(100, &log);
    let asks = Consume { instance: Some(1), ..asks_of(1) };
    subscribed(&mut next, 21, &asks, WINDOW);
    assert_eq!(handed(&mut next, 21, &asks).0, [1, 2, 3, 4, 5]);
    // A hub that ends in order notes what was taken last.
    channel.hear_consumer(12, &key, &[2; 16], FramesMessage::Taken { next: 2 }, 0).unwrap();
    channel.close();
    let log = [log, written(&mut channel)].concat();
    let mut next = next_hub(100, &log);
    subscribed(&mut next, 21, &asks, WINDOW);
    assert_eq!(handed(&mut next, 21, &asks).0, [0; 0]);
}

#[test]
fn a_producer_of_whom_the_log_has_only_its_end_is_known_to_the_next_hub() {
    let nothing = ProducerId::new("dog").unwrap();
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    attached(&mut channel, 2, &nothing, None);
    (0..3).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    channel.hear(1, FramesMessage::Finish { frames: 3 }, 0).unwrap();
    channel.hear(2, FramesMessage::Finish { frames: 0 }, 0).unwrap();
    let is_end = |item: &Item| matches!(item, Item::ProducerOver { .. });
    let mut log = written(&mut channel);
    // The files with the frames were forgotten.
    log.retain(|(_, item, _)| is_end(item));
    let mut channel = next_hub(100, &log);
    let asks = Consume { producers: 2, ..asks(1, None, FramePolicy::Block) };
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 11, &asks), (vec![], vec![(0, 3)]));
    assert!(channel.has_ended(&key, &asks.consumer), "both are over");
    // One that comes again goes on with its sequence.
    assert_eq!(attached(&mut channel, 1, &producer(), None).1, 3);
}

#[test]
fn a_set_that_is_over_is_refused_to_who_did_not_make_it() {
    let dog = ProducerId::new("dog").unwrap();
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    let (theirs, _) = attached(&mut channel, 2, &dog, None);
    let declare = FramesMessage::Declare { set: 7, frames: 2 };
    channel.hear(1, declare.clone(), 0).unwrap();
    push(&mut channel, epoch, 0, (7, 0));
    let item = frame(&dog, 0, Some((7, 1)), 3);
    assert!(channel.begin(2, theirs, 0, &item).unwrap());
    channel.arrived(2, theirs, 0, item, Payload::from(b"abc".to_vec()), 0);
    let log = written(&mut channel);
    assert!(channel.status().sets.is_empty(), "it is over");
    // Said again after an outage, and for the first time by one whose frames were faster than its word.
    channel.detach(1);
    attached(&mut channel, 3, &producer(), Some(1));
    channel.hear(3, declare.clone(), 0).unwrap();
    channel.hear(2, declare.clone(), 0).unwrap();
    let refused = |channel: &mut Channel, link: u64| {
        let failure = channel.hear(link, declare.clone(), 0).unwrap_err();
        assert_eq!((failure.kind, failure.cause.as_str()), (FailureKind::Conflict, "the set 7 is over"));
    };
    // Another one, and another process under the name of one that made it.
    attached(&mut channel, 4, &ProducerId::new("owl").unwrap(), None);
    refused(&mut channel, 4);
    channel.detach(3);
    attached(&mut channel, 5, &producer(), None);
    refused(&mut channel, 5);
    // The next hub is told again what only that one heard.
    let mut channel = next_hub(100, &log);
    attached(&mut channel, 1, &producer(), Some(1));
    channel.hear(1, declare.clone(), 0).unwrap();
    attached(&mut channel, 4, &ProducerId::new("owl").unwrap(), None);
    refused(&mut channel, 4);
}

#[test]
fn sets_that_are_declared_without_end_are_refused_before_they_take_all_memory() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let epoch = begun(&mut channel);
    let most = limits::CHANNEL_FRAMES_MAX + NOTES_MAX + 2 * limits::SETS_OPEN_MAX;
    let refused = (0..2 * most as u64).find_map(|set| {
        while channel.take_action().is_some() {}
        channel.hear(1, FramesMessage::Declare { set, frames: 2 }, 0).err()
    });
    assert_eq!(refused.unwrap().kind, FailureKind::Busy);
    assert!(channel.log.len() <= most);
    // What its frames wait for is told.
    assert!(!channel.status().was_full);
    push(&mut channel, epoch, 0, (7, 0));
    assert!(channel.status().was_full && channel.is_held_up(1));
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
    let asks = |who: u8| asks(who, Some("workers"), FramePolicy::Block);
    let key = ConsumerKey::of(&asks(1));
    for who in [1, 2] {
        // One frame at a time for each.
        let window = Window { bytes: 1 << 20, items: 1 };
        subscribed(&mut channel, u64::from(who) + 10, &asks(who), window);
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

#[test]
fn what_a_member_was_told_is_lost_is_told_to_another_if_it_leaves_before_it_took_that() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = |who: u8| asks(who, Some("workers"), FramePolicy::DropOldest { depth: 1 });
    let key = ConsumerKey::of(&asks(1));
    for who in [1, 2] {
        let window = Window { bytes: 1 << 20, items: 1 };
        subscribed(&mut channel, u64::from(who) + 10, &asks(who), window);
    }
    let epoch = begun(&mut channel);
    for sequence in 0..3 {
        push(&mut channel, epoch, sequence, (7, sequence as u32));
    }
    channel.hear(1, FramesMessage::Finish { frames: 3 }, 0).unwrap();
    let next = |channel: &mut Channel, who: u8| match channel.next(u64::from(who) + 10, &key, &[who; 16], 0) {
        Some(Work::Send { number, what: What::Note(item), .. }) => Some((number, item)),
        Some(Work::Send { number, what: What::Frame(held), .. }) => {
            Some((number, Item::Frame(Box::new(held.head.clone()))))
        }
        _ => None,
    };
    let lost = LostRange { producer: producer(), first: 0, end: 2, reason: LossReason::Dropped };
    assert_eq!(next(&mut channel, 2), Some((0, Item::Lost(lost.clone()))));
    // The other has the rest, but not the end.
    let mut had = Vec::new();
    while let Some((number, item)) = next(&mut channel, 1) {
        let taken = FramesMessage::Taken { next: number + 1 };
        channel.hear_consumer(11, &key, &[1; 16], taken, 0).unwrap();
        had.push(item);
    }
    assert!(matches!(&had[..], [Item::Frame(_), Item::ProducerOver { .. }]), "{had:?}");
    channel.leave(12, &key, &[2; 16]);
    assert_eq!(next(&mut channel, 1), Some((2, Item::Lost(lost))));
    channel.hear_consumer(11, &key, &[1; 16], FramesMessage::Taken { next: 3 }, 0).unwrap();
    assert_eq!(next(&mut channel, 1), Some((3, Item::End)));
}

/// A producer of this number comes, gives so many frames, finishes and is gone; the sequence that it began with.
fn comes_and_goes(channel: &mut Channel, number: u64, frames: u64) -> Result<u64> {
    let (id, link) = (ProducerId::new(&format!("p{number}")).unwrap(), 1_000_000 + number);
    channel.attach(link, (&id, [1; 16]), None, HeldLevel::Memory, WINDOW)?;
    let mut stands = None;
    while let Some(action) = channel.take_action() {
        if let Action::Tell(to, FramesMessage::Stand { epoch, next }) = action
            && to == link
        {
            stands = Some((epoch, next));
        }
    }
    let (epoch, next) = stands.unwrap();
    for sequence in next..next + frames {
        let item = frame(&id, sequence, None, 3);
        assert!(channel.begin(link, epoch, sequence, &item)?);
        channel.arrived(link, epoch, sequence, item, Payload::from(b"abc".to_vec()), 0);
    }
    channel.hear(link, FramesMessage::Finish { frames: next + frames }, 0)?;
    channel.detach(link);
    while channel.take_action().is_some() {}
    Ok(next)
}

/// Takes all that a consumer is handed: `(producer, first, end)` of what was delivered, of what was named as lost, and
/// who is over.
fn takes(channel: &mut Channel, link: u64, asks: &Consume, next: &mut u64) -> [Vec<(String, u64, u64)>; 3] {
    let (key, mut all) = (ConsumerKey::of(asks), [const { Vec::new() }; 3]);
    while let Some(Work::Send { number, what, .. }) = channel.next(link, &key, &asks.consumer, 0) {
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
        channel.hear_consumer(link, &key, &asks.consumer, FramesMessage::Taken { next: *next }, 0).unwrap();
    }
    all
}

/// As many as there may be beside one that stays, so that there is no end.
const MOST: u64 = limits::PRODUCERS_MAX as u64 - 1;

#[test]
fn producers_that_are_over_and_taken_make_room_for_others_without_end() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = asks(1, None, FramePolicy::Block);
    subscribed(&mut channel, 11, &asks, WINDOW);
    begun(&mut channel);
    let mut next = 0;
    for number in 0..3 * MOST {
        assert_eq!(comes_and_goes(&mut channel, number, 2).unwrap(), 0);
        let [came, lost, over] = takes(&mut channel, 11, &asks, &mut next);
        assert_eq!((came.len(), lost.len(), over.len()), (2, 0, 1), "{number}");
    }
    assert!(channel.sources.len() <= limits::PRODUCERS_MAX);
    let one = channel.subscriptions.values().next().unwrap();
    assert!(one.expect.len() <= limits::PRODUCERS_MAX);
    // One that was forgotten goes on with its sequence, and who had its frames is told of no loss.
    assert_eq!(comes_and_goes(&mut channel, 0, 2).unwrap(), 2);
    let [came, lost, _] = takes(&mut channel, 11, &asks, &mut next);
    assert_eq!((came[0].1, lost.len()), (2, 0), "{came:?} {lost:?}");
}

#[test]
fn producers_of_whom_something_is_left_to_be_taken_are_not_forgotten() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = asks(1, None, FramePolicy::Block);
    subscribed(&mut channel, 11, &asks, WINDOW);
    begun(&mut channel);
    for number in 0..MOST {
        comes_and_goes(&mut channel, number, 1).unwrap();
    }
    let refused = comes_and_goes(&mut channel, MOST, 1).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Busy);
    assert!(refused.cause.contains("1024 producers that are not over, or whose frames"), "{}", refused.cause);
    let mut next = 0;
    let [came, lost, over] = takes(&mut channel, 11, &asks, &mut next);
    assert_eq!((came.len(), lost.len(), over.len()), (MOST as usize, 0, MOST as usize));
    assert_eq!(comes_and_goes(&mut channel, MOST, 1).unwrap(), 0);
    // What a log retains is not forgotten either.
    let mut channel = recorded();
    begun(&mut channel);
    for number in 0..MOST {
        comes_and_goes(&mut channel, number, 1).unwrap();
    }
    assert_eq!(comes_and_goes(&mut channel, MOST, 1).unwrap_err().kind, FailureKind::Busy);
}

#[test]
fn what_a_consumer_did_not_get_of_a_producer_that_is_forgotten_is_named_to_it() {
    let unattended = ChannelWishes { is_unattended: true, ..ChannelWishes::default() };
    let mut channel = Channel::new(&unattended, 1 << 20, 0);
    begun(&mut channel);
    // Nobody is there for these.
    for number in 0..MOST {
        comes_and_goes(&mut channel, number, 3).unwrap();
    }
    let early = asks(1, None, FramePolicy::Block);
    subscribed(&mut channel, 11, &early, WINDOW);
    let mut next = 0;
    assert_eq!(takes(&mut channel, 11, &early, &mut next), [const { Vec::new() }; 3]);
    // The first of them is forgotten for it: told now, and not at the end.
    comes_and_goes(&mut channel, MOST, 1).unwrap();
    let [came, lost, _] = takes(&mut channel, 11, &early, &mut next);
    assert_eq!((came.len(), &lost[0]), (1, &("p0".to_owned(), 0, 3)), "{came:?}");
    // At the end everybody knows all: those that were there then, and who comes later.
    let late = asks(2, None, FramePolicy::Block);
    subscribed(&mut channel, 12, &late, WINDOW);
    let mut late_next = 0;
    channel.hear(1, FramesMessage::Finish { frames: 0 }, 0).unwrap();
    let [_, rest, _] = takes(&mut channel, 11, &early, &mut next);
    let [_, all, _] = takes(&mut channel, 12, &late, &mut late_next);
    let whole = |named: Vec<(String, u64, u64)>| {
        let mut named: Vec<(String, u64, u64)> = named;
        named.sort();
        named.dedup();
        named
    };
    let early_named = whole([lost, rest].concat());
    assert_eq!(early_named.len() as u64, MOST, "each but the one that it took");
    let late_named = whole(all);
    assert_eq!(late_named.len() as u64, MOST + 1);
    assert!(late_named.iter().all(|(_, first, end)| *first == 0 && (*end == 3 || *end == 1)));
}

#[test]
fn a_producer_that_was_forgotten_and_comes_again_counts_once_for_who_waits_for_several() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = Consume { producers: 2, ..asks(1, None, FramePolicy::Block) };
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let mut next = 0;
    for round in 0..3 {
        assert_eq!(comes_and_goes(&mut channel, 7, 1).unwrap(), round);
        let [came, ..] = takes(&mut channel, 11, &asks, &mut next);
        assert_eq!((came.len(), channel.has_ended(&key, &asks.consumer)), (1, false), "it is one alone");
        assert!(channel.retire_one());
    }
    comes_and_goes(&mut channel, 8, 1).unwrap();
    takes(&mut channel, 11, &asks, &mut next);
    assert!(channel.has_ended(&key, &asks.consumer));
}

#[test]
fn a_consumer_with_a_smaller_window_than_it_asked_for_is_told_on_each_link() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    channel.tell_window(11, &key, &asks.consumer);
    channel.pause_consumer(11, &key, &asks.consumer);
    // On the next it has all that it asks for.
    channel.consumer_link_lost(11, &key, &asks.consumer);
    let wide = Window { bytes: 2 * WINDOW.bytes, ..WINDOW };
    channel.subscribe(12, &asks, wide).unwrap();
    channel.pause_consumer(12, &key, &asks.consumer);
    let told = |action| match action {
        Action::Tell(link, FramesMessage::WindowIs { bytes }) => Some((link, bytes)),
        _ => None,
    };
    let told: Vec<_> = std::iter::from_fn(|| channel.take_action()).filter_map(told).collect();
    assert_eq!(told, [(11, WINDOW.bytes); 2]);
    let lane = &channel.subscriptions[&key].members[&asks.consumer].lane;
    assert_eq!(lane.window(), wide);
}

/// Room for a note, and not for the report that comes before it.
#[test]
fn a_report_that_has_no_room_yet_is_waited_for_with_what_is_behind_it() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = asks(1, Some("workers"), FramePolicy::Block);
    // Two frames, and next to nothing.
    let window = Window { bytes: 2 * cost(3, 0) + 1, items: 64 };
    let key = subscribed(&mut channel, 11, &asks, window);
    let epoch = begun(&mut channel);
    attached(&mut channel, 2, &ProducerId::new("dog").unwrap(), None);
    channel.hear(1, FramesMessage::Declare { set: 7, frames: 5 }, 0).unwrap();
    push(&mut channel, epoch, 0, (7, 0));
    push(&mut channel, epoch, 1, (7, 2));
    for sequence in 2..4 {
        let item = frame(&producer(), sequence, None, 3);
        assert!(channel.begin(1, epoch, sequence, &item).unwrap());
        channel.arrived(1, epoch, sequence, item, Payload::from(b"abc".to_vec()), 0);
    }
    channel.hear(1, FramesMessage::Finish { frames: 4 }, 0).unwrap();
    channel.hear(2, FramesMessage::Finish { frames: 0 }, 0).unwrap();
    let (mut had, mut taken) = (Vec::new(), 0);
    loop {
        while let Some(Work::Send { what, .. }) = channel.next(11, &key, &asks.consumer, 0) {
            had.push(match what {
                What::Frame(held) => format!("frame {}", held.head.sequence),
                What::Note(Item::GroupSet(set)) => format!("set {} without {:?}", set.over.set, set.missing),
                What::Note(Item::ProducerOver { producer, .. }) => format!("{producer} over"),
                What::Note(item) => format!("{item:?}"),
            });
        }
        if taken == had.len() {
            break;
        }
        taken += 1;
        let message = FramesMessage::Taken { next: taken as u64 };
        channel.hear_consumer(11, &key, &asks.consumer, message, 0).unwrap();
    }
    let set = "set 7 without [(1, 2), (3, 5)]".to_owned();
    assert!(had[..4] == ["frame 0", "frame 1", "frame 2", "frame 3"] && had.contains(&set), "{had:?}");
    assert_eq!((had.len(), had.last().map(String::as_str)), (8, Some("End")), "{had:?}");
}

#[test]
fn a_consumer_that_says_it_took_what_is_still_read_for_it_holds_no_file_of_the_log() {
    let mut first = recorded();
    let epoch = begun(&mut first);
    push(&mut first, epoch, 0, (7, 0));
    let mut channel = recorded();
    written(&mut first).into_iter().for_each(|(place, item, at)| channel.restore(place, item, at));
    channel.restored();
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let work = channel.next(11, &key, &asks.consumer, 0);
    let Some(Work::Read { number: 0, at, .. }) = work else { panic!("{work:?}") };
    channel.hear_consumer(11, &key, &asks.consumer, FramesMessage::Taken { next: 1 }, 0).unwrap();
    channel.loaded(&key, &asks.consumer, 0, at, None);
    // Behind another one it may go.
    channel.files.found(1000, Location { file: 1, offset: 0, bytes: 1000 });
    assert_eq!(channel.files.oldest().map(|(number, _)| number), Some(0));
}

#[test]
fn a_durable_producer_is_held_up_while_the_log_cannot_be_written_and_no_longer() {
    for (level, is_held_up) in [(HeldLevel::Durable, true), (HeldLevel::Memory, false)] {
        let mut channel = recorded();
        let epoch = begun(&mut channel);
        push(&mut channel, epoch, 0, (7, 0));
        written(&mut channel);
        channel.sources.get_mut(&producer()).unwrap().level = level;
        push(&mut channel, epoch, 1, (7, 1));
        assert!(!channel.is_held_up(1), "a disk that is only slow is judged as the link is");
        channel.trouble("no space left".to_owned());
        assert_eq!(channel.is_held_up(1), is_held_up);
        assert!(!channel.is_held_up(2), "another link waits for nothing");
        written(&mut channel);
        assert!(!channel.is_held_up(1));
    }
}

/// A consumer comes on this link, is handed what there is, as words, takes so many of those, and goes.
fn stays_for(channel: &mut Channel, link: u64, who: u8, takes: u64) -> Vec<String> {
    let asks = asks(who, None, FramePolicy::Block);
    let key = subscribed(channel, link, &asks, WINDOW);
    let mut had = Vec::new();
    loop {
        match channel.next(link, &key, &asks.consumer, 0) {
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
            Some(Work::Read { number, at, place }) => {
                let Item::Frame(head) = frame(&producer(), place, None, 3) else { unreachable!() };
                let held = Held { head: *head, payload: Payload::from(b"abc".to_vec()) };
                channel.loaded(&key, &asks.consumer, number, at, Some(Arc::new(held)));
            }
        }
    }
    channel.hear_consumer(link, &key, &asks.consumer, FramesMessage::Taken { next: takes }, 0).unwrap();
    channel.leave(link, &key, &asks.consumer);
    had
}

#[test]
fn what_the_last_consumer_was_handed_and_had_not_taken_is_handed_to_the_next() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let epoch = begun(&mut channel);
    channel.hear(1, FramesMessage::Declare { set: 7, frames: 4 }, 0).unwrap();
    (0..4).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    channel.give_up(1, &producer());
    let end = ["set 7 over", "over, gone true", "End"];
    let all = |from: u64| (from..4).map(|sequence| format!("frame {sequence}"));
    let wanted = |lost: &str, from: u64| -> Vec<String> {
        let lost = (!lost.is_empty()).then(|| lost.to_owned());
        lost.into_iter().chain(all(from)).chain(end.map(str::to_owned)).collect()
    };
    assert_eq!(stays_for(&mut channel, 11, 1, 2), wanted("", 0));
    assert!(channel.has_frames() && channel.memory_bytes() > 0, "they wait");
    assert_eq!(stays_for(&mut channel, 12, 2, 2), wanted("lost 0..2 Forgotten", 2));
    assert_eq!(stays_for(&mut channel, 13, 3, 5), wanted("lost 0..3 Forgotten", 3));
    assert_eq!((channel.has_frames(), channel.memory_bytes()), (false, 0), "all was taken");
}

#[test]
fn what_one_consumer_of_several_had_not_taken_is_not_held_when_another_took_it() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let epoch = begun(&mut channel);
    let other = asks(2, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 12, &other, WINDOW);
    (0..4).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    let mut next = 0;
    assert_eq!(takes(&mut channel, 12, &other, &mut next)[0].len(), 4);
    assert!(stays_for(&mut channel, 11, 1, 0).is_empty(), "it came later");
    push(&mut channel, epoch, 4, (7, 4));
    assert_eq!(stays_for(&mut channel, 13, 3, 0)[..], ["lost 0..4 Forgotten", "frame 4"]);
    assert_eq!(takes(&mut channel, 12, &other, &mut next)[0].len(), 1);
    channel.leave(12, &key, &other.consumer);
    assert!(!channel.has_frames());
}

#[test]
fn what_waits_for_a_consumer_is_found_in_the_log_that_holds_what_memory_does_not() {
    // Memory holds one of them.
    let mut channel = Channel::new(&ChannelWishes::default(), 2 * cost(3, 0) - 1, 0);
    channel.set_spill(SpillTerms { is_recorded: false, bytes_max: 1 << 30 });
    let asks = asks(1, None, FramePolicy::Spill);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let epoch = begun(&mut channel);
    for sequence in 0..3 {
        push(&mut channel, epoch, sequence, (7, sequence as u32));
        written(&mut channel);
    }
    let mut in_memory = 0;
    while let Some(work) = channel.next(11, &key, &asks.consumer, 0) {
        in_memory += u32::from(matches!(work, Work::Send { .. }));
    }
    assert_eq!(in_memory, 1, "the others are being read");
    channel.leave(11, &key, &asks.consumer);
    written(&mut channel);
    assert_eq!(stays_for(&mut channel, 12, 2, 3)[..], ["frame 0", "frame 1", "frame 2"]);
}

#[test]
fn who_comes_back_behind_another_process_of_its_name_is_refused() {
    let unattended = ChannelWishes { is_unattended: true, ..ChannelWishes::default() };
    let mut channel = Channel::new(&unattended, 1 << 20, 0);
    let attach = |channel: &mut Channel, link: u64, process: u8, first| {
        channel.attach(link, (&producer(), [process; 16]), first, HeldLevel::Memory, WINDOW)
    };
    attach(&mut channel, 1, 1, None).unwrap();
    channel.link_lost(1);
    // It is the same process that comes back, whatever its link.
    attach(&mut channel, 3, 1, Some(0)).unwrap();
    channel.link_lost(3);
    // Another one makes frames with the numbers of those that it kept.
    attach(&mut channel, 4, 2, None).unwrap();
    let refused = attach(&mut channel, 5, 1, Some(0)).unwrap_err();
    assert_eq!((refused.kind, &refused.operation[..]), (FailureKind::Conflict, TAKE_NAME));
    channel.hear(4, FramesMessage::Finish { frames: 0 }, 0).unwrap();
    channel.detach(4);
    assert_eq!(attach(&mut channel, 6, 1, Some(0)).unwrap_err().kind, FailureKind::Conflict);
    // Also when nothing but its sequence is known any more.
    assert!(channel.retire_one());
    assert_eq!(attach(&mut channel, 7, 1, Some(0)).unwrap_err().kind, FailureKind::Conflict);
    attach(&mut channel, 8, 2, Some(0)).unwrap();
    // One that begins has nothing that could be taken for another's.
    channel.detach(8);
    attach(&mut channel, 9, 3, None).unwrap();
    // A consumer.
    let as_process = |process: u8, instance| Consume {
        process: [process; 16],
        instance,
        ..asks(1, None, FramePolicy::Block)
    };
    let first = channel.subscribe(11, &as_process(1, None), WINDOW).unwrap();
    let key = ConsumerKey::of(&as_process(1, None));
    channel.consumer_link_lost(11, &key, &[1; 16]);
    channel.subscribe(12, &as_process(2, None), WINDOW).unwrap();
    let refused = channel.subscribe(13, &as_process(1, Some(first.instance)), WINDOW).unwrap_err();
    assert_eq!((refused.kind, &refused.operation[..]), (FailureKind::Conflict, TAKE_NAME));
    // One that begins waits until the other's link is known to be lost.
    let refused = channel.subscribe(14, &as_process(3, None), WINDOW).unwrap_err();
    assert_eq!((refused.kind, &refused.operation[..]), (FailureKind::Busy, TAKE_NAME));
}
