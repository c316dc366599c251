//! Sets: when they are over, and who may go on with one.

use super::*;
use thalweg_wire::message::GroupSet;

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
fn a_set_that_its_producer_ends_is_over_when_the_hub_has_what_came_before_and_nobody_else_makes_it() {
    let mut channel = recorded();
    let epoch = begun(&mut channel);
    let declare = |set| FramesMessage::Declare { set, frames: 1440 };
    let end = |set, next| FramesMessage::EndSet { set, next };
    channel.hear(1, declare(7), 0).unwrap();
    push(&mut channel, epoch, 0, (7, 0));
    channel.hear(1, end(7, 2), 0).unwrap();
    assert_eq!(sets_over(&mut channel), [], "a frame of it is on its way");
    push(&mut channel, epoch, 1, (7, 1));
    assert_eq!(sets_over(&mut channel), [SetOver { set: 7, frames: 1440, taken: 2 }]);
    // It goes on with the next, and says of the last again what was maybe not heard.
    channel.hear(1, declare(7), 0).unwrap();
    channel.hear(1, end(7, 2), 0).unwrap();
    channel.hear(1, declare(8), 0).unwrap();
    push(&mut channel, epoch, 2, (8, 0));
    attached(&mut channel, 2, &ProducerId::new("dog").unwrap(), None);
    channel.hear(2, declare(8), 0).unwrap();
    channel.hear(1, end(8, 3), 0).unwrap();
    assert_eq!(sets_over(&mut channel), [], "another one makes it");
    channel.hear(2, end(8, 0), 0).unwrap();
    assert_eq!(sets_over(&mut channel), [SetOver { set: 8, frames: 1440, taken: 1 }]);
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
    let refused = |channel: &mut Channel, attachment: u64| {
        let failure = channel.hear(attachment, declare.clone(), 0).unwrap_err();
        assert_eq!((failure.kind, failure.reason), (FailureKind::Conflict, Reason::SetOver), "{failure}");
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
    let most = limits::CHANNEL_FRAMES_MAX + NOTES_MAX + 2 * limits::SETS_OPEN_MAX;
    let refused = |channel: &mut Channel| {
        let refused = (0..2 * most as u64).find_map(|set| {
            while channel.take_action().is_some() {}
            channel.hear(1, FramesMessage::Declare { set, frames: 2 }, 0).err()
        });
        assert!(channel.log.len() <= most);
        refused.unwrap()
    };
    let mut channel = Channel::new(&ChannelWishes::default(), 1 << 20, 0);
    let epoch = begun(&mut channel);
    let why = refused(&mut channel);
    assert_eq!((why.kind, why.reason), (FailureKind::Busy, Reason::ConsumersSlow));
    // What its frames wait for is told.
    assert!(!channel.status().was_full);
    push(&mut channel, epoch, 0, (7, 0));
    assert!(channel.status().was_full && channel.is_held_up(1));
    // No consumer makes room in a log of which nothing goes.
    let mut channel = recorded();
    channel.set_keeps_all(true);
    begun(&mut channel);
    let why = refused(&mut channel);
    assert_eq!((why.kind, why.reason), (FailureKind::Busy, Reason::Other));
    assert!(why.cause.contains("no-delete"), "{why}");
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
    log.into_iter().for_each(|(position, item, at)| second.restore(position, item, at));
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
    log.into_iter().for_each(|(position, item, at)| second.restore(position, item, at));
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
    // Each of them is told that its producer is over, too.
    assert!(matches!(next(&mut channel, 2), Some(Item::ProducerOver { .. })));
    take(&mut channel, 2, 2);
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
