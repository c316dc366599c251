//! Producers that come and go: whom the hub forgets, and who may come back under a name.

use super::*;
use thalweg_wire::message::TakenBefore;

/// A producer of this number comes, gives so many frames, finishes and is gone; the sequence that it began with.
fn comes_and_goes(channel: &mut Channel, number: u64, frames: u64) -> Result<u64> {
    let (id, attachment) = (ProducerId::new(&format!("p{number}")).unwrap(), 1_000_000 + number);
    channel.attach(attachment, (&id, [1; 16]), None, HeldLevel::Memory, WINDOW)?;
    let mut stands = None;
    while let Some(action) = channel.take_action() {
        if let Action::Tell(to, FramesMessage::Stand { epoch, next }) = action
            && to == attachment
        {
            stands = Some((epoch, next));
        }
    }
    let (epoch, next) = stands.unwrap();
    for sequence in next..next + frames {
        let item = frame(&id, sequence, None, 3);
        assert!(channel.begin(attachment, epoch, sequence, &item)?);
        channel.arrived(attachment, epoch, sequence, item, Payload::from(b"abc".to_vec()), 0);
    }
    channel.hear(attachment, FramesMessage::Finish { frames: next + frames }, 0)?;
    channel.detach(attachment);
    while channel.take_action().is_some() {}
    Ok(next)
}

#[test]
fn what_was_taken_under_a_name_is_told_as_long_as_all_of_it_is_known() {
    let mut channel = recorded();
    assert_eq!(channel.taken_before(&producer()), None);
    let epoch = begun(&mut channel);
    assert_eq!(channel.taken_before(&producer()), Some(TakenBefore::default()));
    (0..2).for_each(|sequence| push(&mut channel, epoch, sequence, (1, sequence as u32)));
    let before = Some(TakenBefore { bytes: 6, last_bytes: 3 });
    assert_eq!(channel.taken_before(&producer()), before);
    // The next hub knows what the log has, and not what it lacks.
    let log = written(&mut channel);
    for (lacks, known) in [(0, before), (1, None)] {
        let mut next = recorded();
        log.iter().skip(lacks).for_each(|(position, item, at)| next.restore(*position, item.clone(), *at));
        assert_eq!(next.taken_before(&producer()), known);
    }
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
    assert!(channel.producers.len() <= limits::PRODUCERS_MAX);
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
fn who_comes_back_behind_another_process_of_its_name_is_refused() {
    let unattended = ChannelWishes { is_unattended: true, ..ChannelWishes::default() };
    let mut channel = Channel::new(&unattended, 1 << 20, 0);
    let attach = |channel: &mut Channel, attachment: u64, process: u8, first| {
        channel.attach(attachment, (&producer(), [process; 16]), first, HeldLevel::Memory, WINDOW)
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
