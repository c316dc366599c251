//! Channels over socketpairs, with peers good and bad.

use super::super::testing::*;
use super::*;
use std::sync::mpsc::{Receiver, channel};
use thalweg_wire::message::{Question, Reply};

/// Short, so that tests of deadlines are.
const SHORT: ControlLimits = ControlLimits {
    stall_timeout: Duration::from_millis(2500),
    heartbeat_interval: Duration::from_millis(50),
    queue_bytes_max: 8 << 20,
};

struct Channel {
    handle: ControlHandle,
    messages: Receiver<Message>,
    end: Receiver<ControlEnd>,
}

impl Channel {
    fn over(connection: Connection, limits: ControlLimits) -> Channel {
        let (to_messages, messages) = channel();
        let (to_end, end) = channel();
        let handle = ControlChannel::spawn(
            connection,
            Box::new(move |message| {
                let _ = to_messages.send(message);
            }),
            Box::new(move |end| to_end.send(end).unwrap()),
            Box::new(|| Heartbeat { verified_bytes: 7, ..Heartbeat::default() }),
            limits,
        );
        Channel { handle: handle.unwrap(), messages, end }
    }

    /// The next message that is no heartbeat.
    fn next(&self) -> Message {
        loop {
            match self.messages.recv_timeout(LONG).unwrap() {
                Message::Heartbeat(_) => {}
                message => return message,
            }
        }
    }

    fn end(&self) -> ControlEnd {
        self.end.recv_timeout(LONG).unwrap()
    }

    fn failure(&self) -> Failure {
        match self.end() {
            ControlEnd::Silent(failure) | ControlEnd::Failed(failure) => failure,
            end => panic!("{end:?}"),
        }
    }
}

fn channels(limits: ControlLimits) -> (Channel, Channel) {
    let (client, server) = connected(tcp_pair());
    (Channel::over(client, limits), Channel::over(server, limits))
}

fn ask(number: u32) -> Message {
    Message::Ask { number, question: Question::About }
}

fn large(number: u32) -> Message {
    Message::Reply { number, reply: Reply::Bytes(vec![number as u8; 1 << 20]) }
}

#[test]
fn messages_large_and_small_come_in_order_both_ways_at_once() {
    let (one, two) = channels(ControlLimits::default());
    let message = |number| if number % 10 == 0 { large(number) } else { ask(number) };
    let sending = [one.handle.clone(), two.handle.clone()].map(|handle| {
        std::thread::spawn(move || (0..200).for_each(|number| handle.send(message(number)).unwrap()))
    });
    for channel in [&one, &two] {
        (0..200).for_each(|number| assert_eq!(channel.next(), message(number)));
    }
    sending.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(one.handle.queued_bytes(), 0);
}

#[test]
fn heartbeats_say_what_the_callback_says_and_keep_an_idle_channel_alive() {
    // Long enough for a machine that is held up.
    let limits = ControlLimits { stall_timeout: Duration::from_secs(10), ..SHORT };
    let (one, two) = channels(limits);
    let began = Instant::now();
    let mut heartbeats = 0;
    while began.elapsed() < limits.stall_timeout + Duration::from_secs(2) {
        match two.messages.recv_timeout(LONG).unwrap() {
            Message::Heartbeat(heartbeat) => assert_eq!(heartbeat.verified_bytes, 7),
            other => panic!("{other:?}"),
        }
        heartbeats += 1;
    }
    assert!((5..400).contains(&heartbeats), "{heartbeats} in 12 s, one each 50 ms");
    assert!(one.end.try_recv().is_err() && two.end.try_recv().is_err());
}

#[test]
fn a_silent_peer_is_given_up_after_the_stall_timeout_and_the_sentence_says_so() {
    let (client, _server) = connected(tcp_pair());
    let began = Instant::now();
    let channel = Channel::over(client, SHORT);
    // It may be there all the same.
    let ControlEnd::Silent(failure) = channel.end() else { panic!("not silent") };
    assert_eq!(failure.kind, FailureKind::Connection);
    assert_eq!(failure.cause, "no sign of life from the peer for 2.5 s");
    assert!(began.elapsed() >= SHORT.stall_timeout && began.elapsed() < LONG);
    assert_eq!(channel.handle.send(ask(1)).unwrap_err(), failure);
    assert_eq!(seconds(ControlLimits::default().stall_timeout), "30");
}

#[test]
fn a_peer_that_talks_and_does_not_listen_is_given_up_too() {
    let (client, mut server) = connected(tcp_pair());
    let channel = Channel::over(client, ControlLimits { queue_bytes_max: 64 << 20, ..SHORT });
    let stop = server.stop_handle();
    let talking = std::thread::spawn(move || {
        let heartbeat = Message::Heartbeat(Heartbeat::default()).encode().unwrap();
        while server.write_all(&heartbeat, LONG).is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    // More than sockets hold; the end may come before all is queued.
    let _ = (0..40).try_for_each(|number| channel.handle.send(large(number)));
    let failure = channel.failure();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert_eq!(failure.cause, "the peer has taken nothing for 2.5 s");
    stop.stop();
    talking.join().unwrap();
}

#[test]
fn a_channel_that_closes_ends_in_time_though_its_peer_talks_and_listens_a_little() {
    let (client, mut server) = connected(unix_pair());
    let channel = Channel::over(client, ControlLimits { queue_bytes_max: 64 << 20, ..SHORT });
    // At the peer's pace this takes half a minute.
    (0..40).for_each(|number| channel.handle.send(large(number)).unwrap());
    channel.handle.close();
    let stop = server.stop_handle();
    let talking = std::thread::spawn(move || {
        let heartbeat = Message::Heartbeat(Heartbeat::default()).encode().unwrap();
        let mut piece = vec![0; 64 << 10];
        while server.write_all(&heartbeat, LONG).is_ok() {
            // Past TLS: what it takes is not looked at.
            let _ = (&*server.socket).read(&mut piece);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let failure = channel.failure();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert_eq!(failure.cause, "the peer did not take what was left to say within 2.5 s");
    stop.stop();
    talking.join().unwrap();
}

#[test]
fn a_message_that_the_queue_has_no_room_for_ends_the_channel() {
    let (client, _server) = connected(tcp_pair());
    let limits = ControlLimits { stall_timeout: 10 * LONG, queue_bytes_max: 4 << 20, ..SHORT };
    let channel = Channel::over(client, limits);
    let refused = (0..100).find_map(|number| channel.handle.send(large(number)).err()).unwrap();
    assert_eq!(channel.end(), ControlEnd::Silent(refused.clone()));
    // Else a peer that goes on reading would hear what comes after it.
    assert_eq!(channel.handle.send(ask(1)).unwrap_err(), refused);
    assert_eq!(channel.handle.queued_bytes(), 0);
}

#[test]
fn the_queue_has_a_bound_and_sending_never_waits() {
    let (client, _server) = connected(tcp_pair());
    let channel =
        Channel::over(client, ControlLimits { queue_bytes_max: 4 << 20, ..ControlLimits::default() });
    let refused = (0..100).find_map(|number| channel.handle.send(large(number)).err()).unwrap();
    assert_eq!(refused.kind, FailureKind::Connection);
    assert!(channel.handle.queued_bytes() <= 4 << 20);
}

#[test]
fn a_message_that_the_peer_would_refuse_is_not_queued() {
    let (one, _two) = channels(ControlLimits::default());
    let message = Message::Reply { number: 1, reply: Reply::Bytes(vec![0; 3 << 20]) };
    assert_eq!(one.handle.send(message).unwrap_err().kind, FailureKind::Internal);
}

#[test]
fn closing_sends_what_is_queued_and_both_ends_hear_of_it() {
    let (one, two) = channels(ControlLimits::default());
    for number in 0..20 {
        one.handle.send(large(number)).unwrap();
    }
    one.handle.close();
    assert_eq!(one.handle.send(ask(1)).unwrap_err().kind, FailureKind::Connection);
    for number in 0..20 {
        assert_eq!(two.next(), large(number));
    }
    assert_eq!(two.end(), ControlEnd::PeerClosed);
    assert_eq!(one.end(), ControlEnd::Closed);
    assert_eq!(two.handle.send(ask(1)).unwrap_err().kind, FailureKind::Connection);
}

#[test]
fn what_was_sent_last_arrives_although_the_peer_was_talking_all_the_while() {
    for _ in 0..20 {
        let (one, two) = channels(ControlLimits::default());
        let talking = two.handle.clone();
        let talk = std::thread::spawn(move || while talking.send(ask(0)).is_ok() {});
        one.handle.send(ask(77)).unwrap();
        one.handle.close();
        assert_eq!(two.next(), ask(77));
        assert_eq!(two.end(), ControlEnd::PeerClosed);
        assert_eq!(one.end(), ControlEnd::Closed);
        talk.join().unwrap();
    }
}

#[test]
fn closing_from_both_ends_at_once_ends_both() {
    let (one, two) = channels(ControlLimits::default());
    one.handle.close();
    two.handle.close();
    for channel in [one, two] {
        assert!(matches!(channel.end(), ControlEnd::Closed | ControlEnd::PeerClosed));
    }
}

#[test]
fn the_last_handle_dropped_closes() {
    let (one, two) = channels(ControlLimits::default());
    let Channel { handle, end, .. } = one;
    let second = handle.clone();
    drop(handle);
    second.send(ask(3)).unwrap();
    drop(second);
    assert_eq!(two.next(), ask(3));
    assert_eq!(two.end(), ControlEnd::PeerClosed);
    assert_eq!(end.recv_timeout(LONG).unwrap(), ControlEnd::Closed);
}

/// How a channel ends whose peer sends these bytes and then, or not, closes.
fn end_after(bytes: &[u8], closes: bool) -> ControlEnd {
    let (client, mut server) = connected(tcp_pair());
    let channel = Channel::over(client, ControlLimits { stall_timeout: Duration::from_secs(5), ..SHORT });
    server.write_all(bytes, LONG).unwrap();
    if closes {
        server.tls.send_close_notify();
        server.tls.write_tls(&mut &*server.socket).unwrap();
        socket::shutdown_write(&server).unwrap();
    }
    channel.end()
}

fn kind_after(bytes: &[u8], closes: bool) -> FailureKind {
    match end_after(bytes, closes) {
        ControlEnd::Silent(failure) | ControlEnd::Failed(failure) => failure.kind,
        end => panic!("{end:?}"),
    }
}

#[test]
fn a_length_beyond_the_limit_is_refused_at_its_fourth_byte() {
    let beyond = thalweg_wire::limits::MESSAGE_BYTES_MAX as u32 + 1;
    for length in [beyond, u32::MAX] {
        // A byte of the message has come, and the channel does not wait for the others.
        assert_eq!(kind_after(&[&length.to_be_bytes()[..], &[0]].concat(), false), FailureKind::Protocol);
    }
}

#[test]
fn bytes_that_are_no_message_end_the_channel() {
    let mut extra = ask(1).encode().unwrap();
    extra.push(0);
    let length = (extra.len() - LENGTH_BYTES) as u32;
    extra[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    for bytes in [&[0, 0, 0, 1, 0xff][..], &[0, 0, 0, 0, 0], &extra] {
        assert_eq!(kind_after(bytes, false), FailureKind::Protocol, "{bytes:?}");
    }
}

#[test]
fn a_close_between_messages_is_a_close_and_one_within_a_message_is_a_fault() {
    let message = ask(1).encode().unwrap();
    assert_eq!(end_after(&message, true), ControlEnd::PeerClosed);
    for cut in 1..message.len() {
        assert_eq!(kind_after(&message[..cut], true), FailureKind::Protocol, "at {cut}");
    }
}

#[test]
fn a_connection_that_is_cut_is_no_close() {
    let (client, server) = connected(tcp_pair());
    let channel = Channel::over(client, ControlLimits::default());
    drop(server);
    assert_eq!(channel.failure().kind, FailureKind::Connection);
}

#[test]
fn an_altered_record_ends_the_channel() {
    let (client, server) = connected(tcp_pair());
    let channel = Channel::over(client, ControlLimits::default());
    let mut raw = &*server.socket;
    raw.write_all(&[&[23, 3, 3, 0, 40][..], &[0x5a; 40]].concat()).unwrap();
    assert_eq!(channel.failure().kind, FailureKind::Damage);
}

#[test]
fn a_callback_that_panics_ends_its_channel_and_nothing_else() {
    let (client, server) = connected(tcp_pair());
    let (to_end, end) = channel();
    let _handle = ControlChannel::spawn(
        client,
        Box::new(|_| std::panic::panic_any("the callback's own fault")),
        Box::new(move |end| to_end.send(end).unwrap()),
        Box::new(Heartbeat::default),
        ControlLimits::default(),
    )
    .unwrap();
    let peer = Channel::over(server, ControlLimits::default());
    let ControlEnd::Failed(failure) = end.recv_timeout(LONG).unwrap() else { panic!("no failure") };
    assert_eq!(failure.kind, FailureKind::Internal);
    assert_eq!(peer.failure().kind, FailureKind::Connection);
}

#[test]
fn messages_that_came_with_the_hello_are_not_lost() {
    let (mut client, mut server) = connected(tcp_pair());
    let (first, second) = (ask(1).encode().unwrap(), ask(2).encode().unwrap());
    server.write_all(&[b"hello", &first[..], &second[..]].concat(), LONG).unwrap();
    client.read_exact(&mut [0; 5], LONG).unwrap();
    let channel = Channel::over(client, ControlLimits::default());
    assert_eq!((channel.next(), channel.next()), (ask(1), ask(2)));
}

#[test]
fn messages_byte_by_byte_are_put_together() {
    let (client, mut server) = connected(tcp_pair());
    let channel = Channel::over(client, ControlLimits::default());
    for byte in [ask(1).encode().unwrap(), ask(2).encode().unwrap()].concat() {
        server.write_all(&[byte], LONG).unwrap();
    }
    assert_eq!((channel.next(), channel.next()), (ask(1), ask(2)));
}
