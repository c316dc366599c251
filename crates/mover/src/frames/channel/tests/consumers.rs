//! What consumers are handed, told and left by one another.

use super::*;
use thalweg_wire::message::{LossReason, LostRange};

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

#[test]
fn each_member_of_a_group_is_told_that_a_producer_is_over_also_one_that_was_busy() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let of = |who: u8| asks(who, Some("workers"), FramePolicy::Block);
    let key = ConsumerKey::of(&of(1));
    for who in [1, 2] {
        let window = Window { bytes: 1 << 20, items: 1 };
        subscribed(&mut channel, u64::from(who) + 10, &of(who), window);
    }
    let epoch = begun(&mut channel);
    (0..2).for_each(|sequence| push(&mut channel, epoch, sequence, (7, sequence as u32)));
    // It has one in hand, and no room for more.
    assert!(channel.next(12, &key, &[2; 16], 0).is_some());
    channel.give_up(1, &producer());
    let mut next = [0, 0];
    let over = vec![("cam".to_owned(), 2, 2)];
    let [frames, _, told] = takes(&mut channel, 11, &of(1), &mut next[0]);
    assert_eq!((frames.len(), told), (1, over.clone()));
    channel.hear_consumer(12, &key, &[2; 16], FramesMessage::Taken { next: 1 }, 0).unwrap();
    assert_eq!(takes(&mut channel, 12, &of(2), &mut next[1])[2], over);
    assert!(takes(&mut channel, 11, &of(1), &mut next[0])[2].is_empty(), "told once");
    assert!(channel.has_ended(&key, &[1; 16]) && channel.has_ended(&key, &[2; 16]));
}

#[test]
fn another_process_under_a_name_is_told_what_the_one_before_took_of_sets_that_are_not_over() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let epoch = begun(&mut channel);
    for sequence in 0..4 {
        push(&mut channel, epoch, sequence, (7, sequence as u32));
        assert!(channel.next(11, &key, &asks.consumer, 0).is_some());
    }
    channel.hear_consumer(11, &key, &asks.consumer, FramesMessage::Taken { next: 3 }, 0).unwrap();
    let goes_on = |channel: &mut Channel, attachment: u64, process: u8| {
        channel.consumer_link_lost(attachment - 1, &key, &asks.consumer);
        let asks = Consume { process: [process; 16], ..asks.clone() };
        subscribed(channel, attachment, &asks, WINDOW);
        let told = |action| match action {
            Action::Tell(_, FramesMessage::SetHad { set, taken }) => Some((set, taken)),
            _ => None,
        };
        std::iter::from_fn(|| channel.take_action()).filter_map(told).collect::<Vec<_>>()
    };
    assert_eq!(goes_on(&mut channel, 12, 2), [(7, vec![(0, 3)])]);
    // It has the rest, and is told that the set is over.
    channel.hear(1, FramesMessage::Declare { set: 7, frames: 4 }, 0).unwrap();
    while channel.next(12, &key, &asks.consumer, 0).is_some() {}
    channel.hear_consumer(12, &key, &asks.consumer, FramesMessage::Taken { next: 2 }, 0).unwrap();
    assert!(goes_on(&mut channel, 13, 3).is_empty());
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
        Action::Tell(attachment, FramesMessage::WindowIs { bytes }) => Some((attachment, bytes)),
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
fn what_no_consumer_sends_is_refused_by_its_name_and_a_full_channel_says_how_many_it_has() {
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let declared = FramesMessage::Declare { set: 7, frames: 4 };
    let refused = channel.hear_consumer(11, &key, &asks.consumer, declared, 0).unwrap_err();
    assert_eq!(refused.to_string(), "move frames failed: `Declare` came, which a consumer does not send");
    let refused = (0..limits::CONSUMERS_MAX as u64).find_map(|number| {
        let consumer = u128::from(number).to_le_bytes();
        channel.subscribe(20 + number, &Consume { consumer, ..asks.clone() }, WINDOW).err()
    });
    assert_eq!(refused.unwrap().cause, "it has 1024 consumers, as many as it may have");
}

#[test]
fn who_blocks_and_takes_nothing_is_passed_over_after_the_time_that_it_may_and_blocks_again_when_it_takes() {
    let seconds = Duration::from_secs;
    // Room for three frames.
    let mut channel = Channel::new(&ChannelWishes::default(), 3 * cost(3, 0), 0);
    let (asks, epoch) = (asks(1, None, FramePolicy::Block), begun(&mut channel));
    subscribed(&mut channel, 11, &asks, Window { bytes: 1 << 20, items: 1 });
    let item = |sequence| frame(&producer(), sequence, None, 3);
    let give = |channel: &mut Channel, sequence| {
        assert!(channel.begin(1, epoch, sequence, &item(sequence)).unwrap());
        channel.arrived(1, epoch, sequence, item(sequence), Payload::from(b"abc".to_vec()), 0);
    };
    (0..5).for_each(|sequence| give(&mut channel, sequence));
    let waits = |channel: &Channel| channel.status().producers[0].waiting;
    // Without a bound for ever, and with it for so long.
    for (most, at) in [(None, [0, 1000]), (Some(seconds(10)), [1000, 1010])] {
        channel.set_block_max(most);
        assert!(at.into_iter().all(|at| channel.bound_block(seconds(at), 0).is_empty()));
        assert_eq!(waits(&channel), 2);
    }
    let passed = channel.bound_block(seconds(1011), 0);
    assert_eq!((passed.len(), waits(&channel)), (1, 0));
    let is_told = |action| match action {
        Action::Tell(1, FramesMessage::PassedOver { consumer }) => consumer == passed[0],
        _ => false,
    };
    assert!(std::iter::from_fn(|| channel.take_action()).any(is_told));
    let stands = |channel: &Channel| channel.status().consumers[0].clone();
    assert_eq!(stands(&channel).lost, [(LossReason::Dropped, 2)]);
    // No producer is held up by it.
    assert_eq!(stands(&channel).policy, FramePolicy::DropOldest { depth: 0 });
    // It is told which, has the rest, and is waited for as before.
    let [came, lost, _] = takes(&mut channel, 11, &asks, &mut 0);
    assert_eq!((came.len(), lost), (3, vec![("cam".to_owned(), 0, 2)]));
    assert_eq!(stands(&channel).policy, FramePolicy::Block);
    (5..10).for_each(|sequence| give(&mut channel, sequence));
    assert_eq!(waits(&channel), 2);
    // Who takes something now and then is slow, and no more.
    for (next, second) in (5..).zip([2000, 2009, 2018]) {
        assert!(channel.bound_block(seconds(second), 0).is_empty());
        give(&mut channel, 10 + (second - 2000) / 9);
        let key = ConsumerKey::of(&asks);
        assert!(channel.next(11, &key, &asks.consumer, 0).is_some());
        channel.hear_consumer(11, &key, &asks.consumer, FramesMessage::Taken { next }, 0).unwrap();
    }
}

#[test]
fn who_blocks_is_not_passed_over_while_parts_of_a_frame_leave_for_it_or_the_log_is_to_write_what_would_go() {
    let seconds = Duration::from_secs;
    let give = |channel: &mut Channel, epoch: u16| {
        (0..5).for_each(|sequence| push(channel, epoch, sequence, (7, sequence as u32)));
        channel.set_block_max(Some(seconds(10)));
        assert!(channel.is_held_up(1));
    };
    let none = |channel: &mut Channel, second: u64| channel.bound_block(seconds(second), 0).is_empty();
    // A frame that is under way for longer than that.
    let mut channel = Channel::new(&ChannelWishes::default(), 3 * cost(3, 0), 0);
    let (blocks, epoch) = (asks(1, None, FramePolicy::Block), begun(&mut channel));
    let key = subscribed(&mut channel, 11, &blocks, Window { bytes: 1 << 20, items: 1 });
    give(&mut channel, epoch);
    for second in [0, 9, 18, 27] {
        assert!(none(&mut channel, second), "after {second} s");
        channel.consumer_advances(11, &key, &blocks.consumer);
    }
    assert!(none(&mut channel, 30) && none(&mut channel, 40) && !none(&mut channel, 41));
    // One that comes and goes, and has the same frame sent again and again.
    let mut channel = Channel::new(&ChannelWishes::default(), 3 * cost(3, 0), 0);
    let epoch = begun(&mut channel);
    let key = subscribed(&mut channel, 11, &blocks, Window { bytes: 1 << 20, items: 1 });
    give(&mut channel, epoch);
    for second in (0..=100).step_by(5) {
        assert!(none(&mut channel, second), "after {second} s");
        channel.consumer_advances(11, &key, &blocks.consumer);
    }
    assert!(!none(&mut channel, 101));
    // Another consumer has it written: the disk stands still.
    let mut channel = Channel::new(&ChannelWishes::default(), 3 * cost(3, 0), 0);
    channel.set_spill(SpillTerms { is_recorded: false, bytes_max: 1 << 30 });
    let epoch = begun(&mut channel);
    subscribed(&mut channel, 11, &blocks, WINDOW);
    subscribed(&mut channel, 12, &asks(2, None, FramePolicy::Spill), WINDOW);
    give(&mut channel, epoch);
    assert!(none(&mut channel, 0) && none(&mut channel, 100));
    // All that is in memory is recorded, as soon as that disk does something.
    let mut channel = Channel::new(&ChannelWishes::default(), 3 * cost(3, 0), 0);
    channel.set_spill(SpillTerms { is_recorded: true, bytes_max: 1 << 30 });
    let epoch = begun(&mut channel);
    subscribed(&mut channel, 11, &blocks, WINDOW);
    give(&mut channel, epoch);
    assert!(none(&mut channel, 0) && none(&mut channel, 100));
}
