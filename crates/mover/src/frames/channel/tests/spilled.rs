//! The log: what is written to it, read from it, and kept in memory meanwhile.

use super::*;

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

/// Its producers are not held up by an outage either.
#[test]
fn what_waits_for_a_consumer_that_spills_goes_to_the_log_and_what_waits_for_one_that_blocks_does_not() {
    for (policy, is_held_up) in [(FramePolicy::Spill, false), (FramePolicy::Block, true)] {
        let mut channel = Channel::new(&ChannelWishes::default(), 3 * cost(3, 0), 0);
        channel.set_spill(SpillTerms { is_recorded: false, bytes_max: 1 << 30 });
        let gone = asks(1, None, policy);
        let key = subscribed(&mut channel, 11, &gone, WINDOW);
        let epoch = begun(&mut channel);
        channel.leave(11, &key, &gone.consumer);
        for sequence in 0..10 {
            push(&mut channel, epoch, sequence, (7, sequence as u32));
            written(&mut channel);
        }
        assert_eq!(channel.is_held_up(1), is_held_up, "{policy:?}");
        if !is_held_up {
            let all: Vec<String> = (0..10).map(|sequence| format!("frame {sequence}")).collect();
            assert_eq!(stays_for(&mut channel, 12, 2, 10), all);
        }
    }
}

#[test]
fn a_frame_that_was_read_for_a_lane_that_began_anew_meanwhile_is_not_taken_for_another() {
    let mut first = recorded();
    let epoch = begun(&mut first);
    (0..3).for_each(|number| push(&mut first, epoch, number, (7, number as u32)));
    let mut channel = recorded();
    written(&mut first).into_iter().for_each(|(position, item, at)| channel.restore(position, item, at));
    channel.restored();
    let asks = asks(1, None, FramePolicy::Block);
    let key = subscribed(&mut channel, 11, &asks, WINDOW);
    let read =
        |channel: &mut Channel, attachment: u64| match channel.next(attachment, &key, &asks.consumer, 0) {
            Some(Work::Read { number, at, position }) => (number, at, position),
            other => panic!("{other:?}"),
        };
    let held = |position: u64| {
        let item = frame(&producer(), position, Some((7, position as u32)), 3);
        let Item::Frame(head) = item else { unreachable!() };
        Some(Arc::new(HeldFrame { head: *head, payload: Payload::from(b"abc".to_vec()) }))
    };
    let (number, at, position) = read(&mut channel, 11);
    channel.loaded(&key, &asks.consumer, number, at, held(position));
    assert!(matches!(channel.next(11, &key, &asks.consumer, 0), Some(Work::Send { number: 0, .. })));
    channel.hear_consumer(11, &key, &asks.consumer, FramesMessage::Taken { next: 1 }, 0).unwrap();
    let (number, at, position) = read(&mut channel, 11);
    assert_eq!((number, position), (1, 1));
    // Another process under its name begins with number 0, which is that frame.
    channel.unlink_consumer(11, &key, &asks.consumer);
    subscribed(&mut channel, 12, &asks, WINDOW);
    channel.loaded(&key, &asks.consumer, number, at, held(position));
    for wanted in 1..3 {
        let (number, at, position) = read(&mut channel, 12);
        assert_eq!((number, position), (wanted - 1, wanted), "each is read for its own position");
        channel.loaded(&key, &asks.consumer, number, at, held(position));
        let Some(Work::Send { what: What::Frame(held), .. }) = channel.next(12, &key, &asks.consumer, 0)
        else {
            panic!("it is sent")
        };
        assert_eq!(held.head.sequence, wanted);
    }
}

#[test]
fn a_consumer_that_says_it_took_what_is_still_read_for_it_holds_no_file_of_the_log() {
    let mut first = recorded();
    let epoch = begun(&mut first);
    push(&mut first, epoch, 0, (7, 0));
    let mut channel = recorded();
    written(&mut first).into_iter().for_each(|(position, item, at)| channel.restore(position, item, at));
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
        channel.producers.get_mut(&producer()).unwrap().level = level;
        push(&mut channel, epoch, 1, (7, 1));
        assert!(!channel.is_held_up(1), "a disk that is only slow is judged as the link is");
        channel.trouble("no space left".to_owned());
        assert_eq!(channel.is_held_up(1), is_held_up);
        assert!(!channel.is_held_up(2), "another attachment waits for nothing");
        written(&mut channel);
        assert!(!channel.is_held_up(1));
    }
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
fn where_nothing_is_deleted_a_recorded_log_that_is_full_keeps_what_it_has_and_producers_wait() {
    for keeps_all in [false, true] {
        // Nobody is promised what it has.
        let wishes = ChannelWishes { is_unattended: true, ..ChannelWishes::default() };
        let mut channel = Channel::new(&wishes, 1 << 20, 0);
        channel.set_spill(SpillTerms { is_recorded: true, bytes_max: 1 << 30 });
        channel.set_keeps_all(keeps_all);
        let epoch = begun(&mut channel);
        for file in 0..2 {
            channel.files.found(file, Location { file, offset: 0, bytes: 1 << 29 });
        }
        let item = frame(&producer(), 0, None, 3);
        assert!(channel.begin(1, epoch, 0, &item).unwrap());
        channel.arrived(1, epoch, 0, item, Payload::from(b"abc".to_vec()), 0);
        assert_eq!(channel.is_held_up(1), keeps_all);
        // Its consumers are not what it waits for.
        let why = channel.status().spill_trouble;
        assert_eq!(why.is_some_and(|why| why.contains("no-delete")), keeps_all);
        let mut actions = std::iter::from_fn(|| channel.take_action());
        assert_eq!(actions.any(|action| matches!(action, Action::Forget(_))), !keeps_all);
    }
}
