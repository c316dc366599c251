//! The next hub of a channel: who goes on there, and where.

use super::*;
use std::time::Duration;
use thalweg_wire::message::{GroupSet, HasOf};

#[test]
fn a_new_process_under_a_name_goes_on_behind_what_consumers_have_from_an_earlier_hub() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let mut asks = asks(1, None, FramePolicy::Block);
    asks.has = vec![HasOf { producer: producer(), next: 100, is_over: false }];
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

/// Sequences that a consumer is handed, each taken at once, and those that are named to it as lost; what is in the log
/// counts as read.
fn handed(channel: &mut Channel, attachment: u64, asks: &Consume) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (key, mut frames, mut lost) = (ConsumerKey::of(asks), Vec::new(), Vec::new());
    while let Some(work) = channel.next(attachment, &key, &asks.consumer, 0) {
        let number = match work {
            Work::Read { number, at, position } => {
                let logged = channel.log.get(position).unwrap();
                let Kind::Frame { producer, sequence, set, .. } = &logged.kind else { panic!("{logged:?}") };
                let Item::Frame(head) = frame(producer, *sequence, *set, 3) else { unreachable!() };
                let held = HeldFrame { head: *head, payload: Payload::from(b"abc".to_vec()) };
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
        channel.hear_consumer(attachment, &key, &asks.consumer, taken, number * 2_000_000_000).unwrap();
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
        let is_position = |item: &Item| matches!(item, Item::ConsumerAt(_));
        let unnoted: Vec<_> = log.into_iter().filter(|(_, item, _)| !is_position(item)).collect();
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

/// Lanes are numbered by the clock that the hub begins with.
#[test]
fn a_group_goes_on_behind_what_it_took_though_the_clock_was_set_back_before_the_next_hub() {
    let mut asks = asks_of(1);
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    (0..3).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    subscribed(&mut channel, 11, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 11, &asks).0, [0, 1, 2]);
    (3..5).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    let log = written(&mut channel);
    let serial = 100;
    let mut channel = next_hub(serial, &log);
    asks.instance = Some(serial + 1_000_000);
    subscribed(&mut channel, 21, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 21, &asks).0, [3, 4]);
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
fn frames_that_went_with_a_hub_are_named_by_the_one_after_the_next_too() {
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    (0..4).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    let mut log = written(&mut channel);
    // Of three more nothing was written when that hub was killed; the next one was told the end.
    let mut channel = next_hub(100, &log);
    assert_eq!(attached(&mut channel, 1, &producer(), Some(7)).1, 7);
    channel.hear(1, FramesMessage::Finish { frames: 7 }, 0).unwrap();
    log.extend(written(&mut channel));
    let mut channel = next_hub(200, &log);
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 11, &asks), (vec![0, 1, 2, 3], vec![(4, 7)]));
    assert!(channel.has_ended(&key, &asks.consumer));
    // Another process under its name gives no frame a number that one had.
    assert_eq!(attached(&mut channel, 1, &producer(), None).1, 7);
}

#[test]
fn a_group_is_told_of_what_a_producer_lost_with_a_hub_before_it_is_noted_behind_its_end() {
    let mut asks = asks_of(1);
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    (0..4).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    subscribed(&mut channel, 11, &asks, WINDOW);
    let log = written(&mut channel);
    // Of three more nothing was written when that hub was killed; at the next one there is another producer besides.
    let mut channel = next_hub(100, &log);
    attached(&mut channel, 1, &producer(), Some(7));
    channel.hear(1, FramesMessage::Finish { frames: 7 }, 0).unwrap();
    attached(&mut channel, 2, &ProducerId::new("dog").unwrap(), None);
    asks.instance = Some(1);
    let key = subscribed(&mut channel, 21, &asks, WINDOW);
    assert_eq!(handed(&mut channel, 21, &asks), (vec![0, 1, 2, 3], vec![(4, 7)]));
    assert!(!channel.has_ended(&key, &asks.consumer));
}

#[test]
fn producers_that_were_over_at_an_earlier_hub_count_for_who_was_told_of_it() {
    let dog = ProducerId::new("dog").unwrap();
    for group in [None, Some("workers")] {
        let has = HasOf { producer: dog.clone(), next: 3, is_over: true };
        let asks =
            Consume { producers: 2, instance: Some(1), has: vec![has], ..asks(1, group, FramePolicy::Block) };
        let subscribed = |channel: &mut Channel| subscribed(channel, 11, &asks, WINDOW);
        let has_ended = |channel: &mut Channel, key: &ConsumerKey| {
            handed(channel, 11, &asks);
            channel.has_ended(key, &asks.consumer)
        };
        let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 100);
        let key = subscribed(&mut channel);
        assert!(!has_ended(&mut channel, &key), "the other may come");
        begun(&mut channel);
        assert!(!has_ended(&mut channel, &key), "it came");
        channel.hear(1, FramesMessage::Finish { frames: 0 }, 0).unwrap();
        assert!(has_ended(&mut channel, &key), "{group:?}");
        // One that comes again is not two.
        let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 100);
        let key = subscribed(&mut channel);
        attached(&mut channel, 1, &dog, Some(3));
        channel.hear(1, FramesMessage::Finish { frames: 3 }, 0).unwrap();
        assert!(!has_ended(&mut channel, &key), "{group:?}");
    }
}

#[test]
fn producers_of_an_earlier_hub_that_do_not_come_are_gone_when_a_consumer_has_no_more_patience() {
    let (minute, moment) = (Duration::from_secs(60), Duration::from_millis(1));
    let has = HasOf { producer: producer(), next: 5, is_over: false };
    // It never heard of the others that it waits for.
    let asks = Consume {
        producers: 3,
        instance: Some(1),
        has: vec![has],
        patience_ms: 60_000,
        ..asks(1, None, FramePolicy::Block)
    };
    for comes_back in [false, true] {
        let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 100);
        let key = subscribed(&mut channel, 11, &asks, WINDOW);
        let mut next = 0;
        let nothing: [Vec<(String, u64, u64)>; 3] = Default::default();
        for now in [minute, 2 * minute - moment] {
            channel.give_up_earlier(now);
            assert_eq!(takes(&mut channel, 11, &asks, &mut next), nothing, "{now:?}");
        }
        if comes_back {
            attached(&mut channel, 1, &producer(), Some(5));
        }
        channel.give_up_earlier(2 * minute);
        let [delivered, lost, over] = takes(&mut channel, 11, &asks, &mut next);
        assert_eq!((delivered.len(), lost.len(), over.len()), (0, 0, usize::from(!comes_back)));
        assert_eq!(channel.has_ended(&key, &asks.consumer), !comes_back);
    }
}

#[test]
fn a_consumer_that_the_next_hub_gave_up_does_not_wait_there_for_good_for_who_was_before_it() {
    for (group, is_over) in [(None, true), (None, false), (Some("workers"), true), (Some("workers"), false)] {
        let has = HasOf { producer: producer(), next: 5, is_over };
        let mut asks =
            Consume { instance: Some(1), has: vec![has.clone()], ..asks(1, group, FramePolicy::Block) };
        let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 100);
        let key = subscribed(&mut channel, 11, &asks, WINDOW);
        channel.leave(11, &key, &asks.consumer);
        // It comes back by the lane that it had there.
        asks.instance = Some(channel.instances);
        subscribed(&mut channel, 12, &asks, WINDOW);
        channel.give_up_earlier(Duration::from_secs(60));
        let [delivered, lost, over] = takes(&mut channel, 12, &asks, &mut 0);
        assert_eq!((delivered.len(), lost.len(), over.len()), (0, 0, usize::from(!is_over)), "{group:?}");
        assert!(channel.has_ended(&key, &asks.consumer), "{group:?} {is_over}");
    }
}

#[test]
fn producers_that_a_member_tells_of_late_are_waited_for_as_long_as_others_and_no_longer() {
    let (minute, moment) = (Duration::from_secs(60), Duration::from_millis(1));
    let asks = |who, producer: &ProducerId| {
        let has = vec![HasOf { producer: producer.clone(), next: 5, is_over: false }];
        Consume { instance: Some(who), has, patience_ms: 60_000, ..asks_of(who as u8) }
    };
    let (first, late) = (asks(1, &producer()), asks(2, &ProducerId::new("dog").unwrap()));
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 100);
    let key = subscribed(&mut channel, 11, &first, WINDOW);
    [minute, 2 * minute].into_iter().for_each(|now| channel.give_up_earlier(now));
    assert_eq!(takes(&mut channel, 11, &first, &mut 0)[2].len(), 1);
    assert!(channel.has_ended(&key, &first.consumer));
    subscribed(&mut channel, 12, &late, WINDOW);
    for (now, gone) in [(3 * minute, 0), (4 * minute - moment, 0), (4 * minute, 1)] {
        channel.give_up_earlier(now);
        assert_eq!(takes(&mut channel, 12, &late, &mut 0)[2].len(), gone, "{now:?}");
        assert_eq!(channel.has_ended(&key, &late.consumer), gone == 1, "{now:?}");
    }
}

#[test]
fn what_another_member_of_a_group_met_is_waited_for_though_the_others_waited_long_enough() {
    let minute = Duration::from_secs(60);
    let has = |name: &str| vec![HasOf { producer: ProducerId::new(name).unwrap(), next: 5, is_over: false }];
    let of = |who, name| Consume { instance: Some(1), has: has(name), patience_ms: 60_000, ..asks_of(who) };
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 100);
    let (first, second) = (of(1, "cat"), of(2, "dog"));
    let key = subscribed(&mut channel, 11, &first, WINDOW);
    [minute, 2 * minute].into_iter().for_each(|now| channel.give_up_earlier(now));
    subscribed(&mut channel, 12, &second, WINDOW);
    let mut next = [0; 2];
    let mut take = |channel: &mut Channel| {
        let one = takes(channel, 11, &first, &mut next[0])[2].clone();
        (one, takes(channel, 12, &second, &mut next[1])[2].clone())
    };
    let over = |name: &str| vec![(name.to_owned(), 5, 5)];
    channel.give_up_earlier(3 * minute);
    assert_eq!(take(&mut channel), (over("cat"), vec![]), "it came after that was told");
    assert!(!channel.has_ended(&key, &first.consumer) && !channel.has_ended(&key, &second.consumer));
    channel.give_up_earlier(4 * minute);
    assert_eq!(take(&mut channel), (over("dog"), over("dog")));
    assert!(channel.has_ended(&key, &first.consumer) && channel.has_ended(&key, &second.consumer));
}
