//! Frames over sockets: whole, cut, altered, in both forms.

use super::super::testing::*;
use super::reader::Nothing;
use super::*;
use crate::failure::Reason;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use thalweg_sys::socket;
use thalweg_wire::digest::Digest;
use thalweg_wire::entry::EntryId;
use thalweg_wire::frame::{Encoding, FrameKind, Inner, OUTER_BYTES};
use thalweg_wire::message::TransferNumber;

const SEALED: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
const SESSION: SessionId = [3; 16];

type Halves = (FrameWriter, FrameReader);

/// Client's and server's halves of stream 5.
fn streams(fds: (OwnedFd, OwnedFd), cipher: Cipher, key_bytes_max: u64) -> (Halves, Halves) {
    let (client, server) = connected(fds);
    (
        client.into_streams_with(cipher, &SESSION, 5, Role::Client, key_bytes_max).unwrap(),
        server.into_streams_with(cipher, &SESSION, 5, Role::Server, key_bytes_max).unwrap(),
    )
}

fn segment(payload: &[u8], number: u64) -> Inner {
    Inner {
        kind: FrameKind::Segment,
        encoding: Encoding::Raw,
        transfer: TransferNumber(1),
        raw_bytes: payload.len() as u32,
        entry: EntryId(number),
        offset: 0,
        digest: Digest([7; 32]),
        is_again: false,
    }
}

fn send(writer: &mut FrameWriter, payload: &[u8], number: u64) -> io::Result<()> {
    let mut buffer = FrameBuffer::new(payload.len()).unwrap();
    buffer.payload_mut().copy_from_slice(payload);
    writer.send(&mut buffer, payload.len(), &segment(payload, number))
}

/// Payloads, and how the stream went on after them.
fn receive_all(reader: &mut FrameReader, payload_max: usize) -> (Vec<Vec<u8>>, Result<Received>) {
    let mut buffer = FrameBuffer::new(payload_max).unwrap();
    let mut payloads = Vec::new();
    loop {
        match reader.receive(&mut buffer) {
            Ok(Received::Frame(inner)) => {
                assert_eq!(inner, segment(buffer.payload(), payloads.len() as u64));
                payloads.push(buffer.payload().to_vec());
            }
            end => return (payloads, end),
        }
    }
}

fn payloads() -> Vec<Vec<u8>> {
    [0usize, 1, 100, 4096, 70_000, 1 << 20, 3]
        .iter()
        .map(|&length| (0..length).map(|at| (at * 7) as u8).collect())
        .collect()
}

/// A transfer with larger frames may begin while a stream waits for the next one.
#[test]
fn a_frame_that_does_not_fit_gets_a_larger_buffer_if_it_may_come_by_now_and_else_ends_the_stream() {
    for (payload_max, is_taken) in [(49_999, false), (50_000, true)] {
        let ((mut writer, _client), (_server, mut reader)) =
            streams(unix_pair(), Cipher::Aes128Gcm, limits::KEY_BYTES_MAX);
        for length in [10, 50_000] {
            send(&mut writer, &vec![9; length], 0).unwrap();
        }
        let mut buffer = FrameBuffer::new(1000).unwrap();
        assert!(matches!(reader.receive_up_to(&mut buffer, || 0, &mut Nothing), Ok(Received::Frame(_))));
        let received = reader.receive_up_to(&mut buffer, || payload_max, &mut Nothing);
        match is_taken {
            true => {
                assert!(matches!(received, Ok(Received::Frame(_))));
                assert!(buffer.payload() == vec![9; 50_000]);
            }
            false => assert_eq!(received.map(drop).unwrap_err().kind, FailureKind::Damage),
        }
    }
}

#[test]
fn frames_come_as_they_went_in_every_form_over_tcp_and_socketpairs_from_either_side() {
    for (cipher, fds) in
        Cipher::ALL.into_iter().flat_map(|cipher| [(cipher, tcp_pair as fn() -> _), (cipher, unix_pair)])
    {
        for client_sends in [true, false] {
            let (client, server) = streams(fds(), cipher, limits::KEY_BYTES_MAX);
            let (mut sender, mut receiver) = if client_sends { (client, server) } else { (server, client) };
            let sending = std::thread::spawn(move || {
                for (number, payload) in payloads().iter().enumerate() {
                    send(&mut sender.0, payload, number as u64).unwrap();
                }
                sender.0.finish().unwrap();
                sender
            });
            let (received, end) = receive_all(&mut receiver.1, 1 << 20);
            assert_eq!(received, payloads(), "{cipher:?}");
            assert!(matches!(end, Ok(Received::End)));
            let mut buffer = FrameBuffer::new(0).unwrap();
            assert!(matches!(receiver.1.receive(&mut buffer), Ok(Received::End)), "End stays End");
            assert_eq!(sending.join().unwrap().0.bytes_sent(), receiver.1.bytes_received());
        }
    }
}

#[test]
fn streams_carry_both_directions_at_once_beyond_what_sockets_hold() {
    for cipher in Cipher::ALL {
        let (client, server) = streams(tcp_pair(), cipher, limits::KEY_BYTES_MAX);
        let sent: Vec<Vec<u8>> = (0..40).map(|number| vec![number; 1 << 20]).collect();
        std::thread::scope(|scope| {
            for (mut writer, mut reader) in [client, server] {
                let sent = &sent;
                scope.spawn(move || {
                    for (number, payload) in sent.iter().enumerate() {
                        send(&mut writer, payload, number as u64).unwrap();
                    }
                    writer.finish().unwrap();
                });
                scope.spawn(move || {
                    let (received, end) = receive_all(&mut reader, 1 << 20);
                    assert!(received == *sent, "{cipher:?}");
                    assert!(matches!(end, Ok(Received::End)));
                });
            }
        });
    }
}

#[test]
fn one_thread_may_send_and_then_receive() {
    for cipher in Cipher::ALL {
        let (mut client, mut server) = streams(unix_pair(), cipher, limits::KEY_BYTES_MAX);
        let mut buffer = FrameBuffer::new(10).unwrap();
        for number in 0..100 {
            send(&mut client.0, b"there", number).unwrap();
            send(&mut server.0, b"back", number).unwrap();
            send(&mut client.0, b"again", number).unwrap();
            assert!(matches!(server.1.receive(&mut buffer), Ok(Received::Frame(_))));
            assert_eq!(buffer.payload(), b"there");
            assert!(matches!(client.1.receive(&mut buffer), Ok(Received::Frame(_))));
            assert_eq!(buffer.payload(), b"back");
            assert!(matches!(server.1.receive(&mut buffer), Ok(Received::Frame(_))));
            assert_eq!(buffer.payload(), b"again");
        }
    }
}

#[test]
fn keys_change_many_times_and_nothing_is_lost() {
    for cipher in SEALED {
        let ((mut writer, _w), (_r, mut reader)) = streams(unix_pair(), cipher, 10_000);
        let sent: Vec<Vec<u8>> = (0..500usize).map(|at| vec![at as u8; at * 13 % 3000]).collect();
        let copies = sent.clone();
        let sending = std::thread::spawn(move || {
            for (number, payload) in copies.iter().enumerate() {
                send(&mut writer, payload, number as u64).unwrap();
            }
            writer.finish().unwrap();
            writer
        });
        let (received, end) = receive_all(&mut reader, 3000);
        assert_eq!(received, sent);
        assert!(matches!(end, Ok(Received::End)));
        sending.join().unwrap();
    }
}

// What stands on the wire, for those who alter it.

const SECRET: [u8; SECRET_BYTES] = [9; SECRET_BYTES];

fn tcp_stream(socket: UnixStream) -> Arc<TcpStream> {
    Arc::new(TcpStream::from(OwnedFd::from(socket)))
}

/// The bytes of a short sealed stream with its End frame.
fn wire() -> Vec<u8> {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let sealer = Sealer::new(Cipher::Aes128Gcm, &SECRET, limits::KEY_BYTES_MAX).unwrap();
    let mut writer = FrameWriter::new(tcp_stream(ours), WriterForm::Sealed(Box::new(sealer)));
    for (number, payload) in short_payloads().iter().enumerate() {
        send(&mut writer, payload, number as u64).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).unwrap();
    bytes
}

fn short_payloads() -> Vec<Vec<u8>> {
    vec![b"first".to_vec(), Vec::new(), b"a third, a little longer than the others".to_vec()]
}

/// A reader of a stream that has these bytes and then ends.
fn reader_of(bytes: &[u8]) -> FrameReader {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(bytes).unwrap();
    let opener = Opener::new(Cipher::Aes128Gcm, &SECRET, limits::KEY_BYTES_MAX).unwrap();
    FrameReader::new(tcp_stream(ours), ReaderForm::Sealed(Box::new(opener)))
}

#[test]
fn a_stream_cut_at_any_byte_is_cut_and_never_ended() {
    let wire = wire();
    for cut in 0..wire.len() {
        let (received, end) = receive_all(&mut reader_of(&wire[..cut]), 100);
        assert!(matches!(end, Ok(Received::Cut(_))), "at {cut}: {end:?}");
        assert!(short_payloads().starts_with(&received));
    }
    let (received, end) = receive_all(&mut reader_of(&wire), 100);
    assert_eq!(received, short_payloads());
    assert!(matches!(end, Ok(Received::End)));
}

/// Counts what was taken of a stream.
struct Counts(usize);

impl Meanwhile for Counts {
    fn fds(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        Vec::new()
    }

    fn notice(&mut self) {}

    fn settle(&mut self) {}

    fn took(&mut self, bytes: usize) {
        self.0 += bytes;
    }
}

/// Else a peer that cuts each of its streams a byte before the end has nearly all of it for nothing.
#[test]
fn a_portion_that_came_in_part_counts_as_taken() {
    let taken = |bytes: &[u8]| {
        let (mut buffer, mut counts) = (FrameBuffer::new(100).unwrap(), Counts(0));
        let received = reader_of(bytes).receive_up_to(&mut buffer, || 100, &mut counts);
        (counts.0, matches!(received, Ok(Received::Frame(_))))
    };
    let wire = wire();
    let (first, is_whole) = taken(&wire);
    assert!(is_whole && first > OUTER_BYTES + 1, "{first} bytes");
    assert_eq!(taken(&wire[..first - 1]), (first, false));
}

#[test]
fn a_bit_flipped_anywhere_in_a_stream_keeps_it_from_its_end() {
    let wire = wire();
    for bit in 0..wire.len() * 8 {
        let mut bad = wire.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut reader = reader_of(&bad);
        let (received, end) = receive_all(&mut reader, 100);
        let is_refused = match &end {
            Ok(Received::Cut(_)) => true,
            Err(failure) => failure.kind == FailureKind::Damage,
            Ok(_) => false,
        };
        assert!(is_refused, "bit {bit}: {end:?}");
        assert!(short_payloads().starts_with(&received), "bit {bit}");
        assert!(reader.receive(&mut FrameBuffer::new(100).unwrap()).is_err(), "it stays over");
    }
}

#[test]
fn a_byte_added_anywhere_keeps_a_stream_from_its_end_unless_it_comes_after_it() {
    let wire = wire();
    for at in 0..wire.len() {
        let mut bad = wire.clone();
        bad.insert(at, 0x55);
        assert!(!matches!(receive_all(&mut reader_of(&bad), 100).1, Ok(Received::End)), "at {at}");
    }
}

#[test]
fn a_length_beyond_the_buffer_is_refused_before_anything_is_read_or_taken() {
    let largest = (limits::FRAME_BYTES_MAX as u32).to_be_bytes();
    for length in [101 + 64 + 16, 1 << 20, u32::from_be_bytes(largest), u32::MAX] {
        let mut head = length.to_be_bytes().to_vec();
        head.extend([0; 4]);
        // The stream does not end here: whoever wanted more would wait.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&head).unwrap();
        let opener = Opener::new(Cipher::Aes128Gcm, &SECRET, limits::KEY_BYTES_MAX).unwrap();
        let mut reader = FrameReader::new(tcp_stream(ours), ReaderForm::Sealed(Box::new(opener)));
        let mut buffer = FrameBuffer::new(100).unwrap();
        assert_eq!(reader.receive(&mut buffer).unwrap_err().kind, FailureKind::Damage, "{length}");
        drop(theirs);
    }
}

#[test]
fn directions_and_streams_and_sessions_do_not_open_each_other() {
    // Reflected: the server's reader gets what the server's writer sent.
    let (client, server) = connected(unix_pair());
    let (mut writer, reader) = server.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Server).unwrap();
    send(&mut writer, b"hello", 0).unwrap();
    let mut sent = vec![0; 8 + 5 + 64 + 16];
    assert_eq!(socket::receive(&client, &mut sent).unwrap(), sent.len());
    let mut raw = &*client.socket;
    raw.write_all(&sent).unwrap();
    let mut reader = reader;
    let mut buffer = FrameBuffer::new(100).unwrap();
    assert_eq!(reader.receive(&mut buffer).unwrap_err().kind, FailureKind::Damage);
    // Another stream number, another session, another cipher at the other end.
    for (cipher, session, stream) in
        [(Cipher::Aes128Gcm, SESSION, 6), (Cipher::Aes128Gcm, [4; 16], 5), (Cipher::Aes256Gcm, SESSION, 5)]
    {
        let (client, server) = connected(unix_pair());
        let (mut writer, _w) = client.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Client).unwrap();
        let (_r, mut reader) = server.into_streams(cipher, &session, stream, Role::Server).unwrap();
        send(&mut writer, b"hello", 0).unwrap();
        assert_eq!(reader.receive(&mut buffer).unwrap_err().kind, FailureKind::Damage);
    }
}

#[test]
fn roles_cannot_be_swapped() {
    let (client, server) = connected(unix_pair());
    assert!(client.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Server).is_err());
    assert!(server.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Client).is_err());
}

#[test]
fn a_peer_that_says_more_than_hello_in_tls_gets_no_sealed_stream() {
    let (mut client, mut server) = connected(unix_pair());
    client.write_all(b"hello and then some", LONG).unwrap();
    server.read_exact(&mut [0; 5], LONG).unwrap();
    let failure = server.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Server).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn frames_may_follow_the_hellos_in_the_same_breath() {
    use thalweg_wire::hello::{Answer, Hello, Purpose, ServerHello, System};
    let (mut client, mut server) = connected(tcp_pair());
    let hello = Hello { session: SESSION, stream: 5, ..Hello::new(Purpose::Stream, Cipher::Aes128Gcm) };
    let serving = std::thread::spawn(move || {
        server.read_hello(LONG).unwrap();
        let answer = ServerHello {
            version: 1,
            versions: (1, 1),
            answer: Answer::Accepted,
            cipher: Cipher::Aes128Gcm,
            features: 0,
            session: SESSION,
            system: System::default(),
        };
        server.answer(&answer, LONG).unwrap();
        let (mut writer, reader) = server.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Server).unwrap();
        send(&mut writer, b"right behind the answer", 0).unwrap();
        writer.finish().unwrap();
        (writer, reader)
    });
    let halves = client.hello(&hello, LONG).map(|_| serving.join().unwrap()).unwrap();
    let (_w, mut reader) = client.into_streams(Cipher::Aes128Gcm, &SESSION, 5, Role::Client).unwrap();
    let (received, end) = receive_all(&mut reader, 100);
    assert_eq!(received, [b"right behind the answer"]);
    assert!(matches!(end, Ok(Received::End)));
    drop(halves);
}

#[test]
fn the_payload_is_aligned_and_its_header_stands_right_before_it() {
    for payload_max in [0, 1, 4096, 100_000, 4 << 20] {
        let mut buffer = FrameBuffer::new(payload_max).unwrap();
        assert_eq!(buffer.payload_max(), payload_max);
        assert_eq!(buffer.payload_mut().len(), payload_max);
        let payload_at = buffer.payload_mut().as_ptr() as usize;
        assert!(payload_at.is_multiple_of(PAYLOAD_ALIGNMENT));
        assert_eq!(buffer.frame_mut(80).as_ptr() as usize + OUTER_BYTES, payload_at);
    }
    assert!(FrameBuffer::new(limits::FRAME_BYTES_MAX).is_err());
}

#[test]
fn what_is_no_frame_is_not_sent() {
    let ((mut writer, _w), _server) = streams(unix_pair(), Cipher::Aes128Gcm, limits::KEY_BYTES_MAX);
    let mut buffer = FrameBuffer::new(10).unwrap();
    let invalid =
        |result: io::Result<()>| assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    invalid(writer.send(&mut buffer, 11, &segment(&[0; 11], 0)));
    invalid(writer.send(&mut buffer, 0, &Inner::end()));
    assert_eq!(writer.bytes_sent(), 0);
    writer.finish().unwrap();
    invalid(writer.finish());
    invalid(send(&mut writer, b"late", 0));
}

#[test]
fn a_reader_waits_no_longer_than_its_timeout_and_not_at_all_once_stopped() {
    for cipher in [Cipher::Aes128Gcm, Cipher::Tls] {
        let (_client, (_w, mut reader)) = streams(tcp_pair(), cipher, limits::KEY_BYTES_MAX);
        reader.set_timeouts(Some(Duration::from_millis(50)), None).unwrap();
        let mut buffer = FrameBuffer::new(10).unwrap();
        assert!(matches!(reader.receive(&mut buffer), Ok(Received::Cut(_))));

        let (_client, (_w, mut reader)) = streams(tcp_pair(), cipher, limits::KEY_BYTES_MAX);
        let stop = reader.stop_handle();
        let stopping = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            stop.stop();
            stop.stop();
        });
        let began = Instant::now();
        assert!(matches!(reader.receive(&mut buffer), Ok(Received::Cut(_))));
        assert!(began.elapsed() < Duration::from_secs(30));
        stopping.join().unwrap();
    }
}

#[test]
fn a_writer_that_nobody_reads_from_stops_at_its_timeout_and_stays_stopped() {
    for cipher in [Cipher::Aes128Gcm, Cipher::Tls] {
        let ((mut writer, _w), _server) = streams(tcp_pair(), cipher, limits::KEY_BYTES_MAX);
        writer.set_timeouts(None, Some(Duration::from_millis(50))).unwrap();
        let payload = vec![0; 1 << 20];
        let stopped = (0..1000).find_map(|number| send(&mut writer, &payload, number).err());
        assert_eq!(stopped.unwrap().kind(), io::ErrorKind::WouldBlock);
        assert!(writer.finish().is_err(), "an End frame would not be where the peer expects it");
    }
}

#[test]
fn a_reader_that_is_gone_is_an_error_of_the_writer() {
    for cipher in [Cipher::Aes128Gcm, Cipher::Tls] {
        let ((mut writer, _w), server) = streams(unix_pair(), cipher, limits::KEY_BYTES_MAX);
        drop(server);
        assert!((0..10).any(|number| send(&mut writer, &[0; 1000], number).is_err()));
    }
}

// TLS form.

#[test]
fn in_tls_form_a_stream_ends_before_its_key_has_sealed_too_many_records() {
    assert!(TlsForm::default().records_max < 1 << 24);
    let (mut client, server) = connected(tcp_pair());
    client.set_tls_form(TlsForm { records_max: 1024, ..TlsForm::default() });
    let (mut writer, _w) = client.into_streams(Cipher::Tls, &SESSION, 5, Role::Client).unwrap();
    let (_s, mut reader) = server.into_streams(Cipher::Tls, &SESSION, 5, Role::Server).unwrap();
    assert!(writer.kernel_tls().is_some());
    reader.records = Some(PeerRecords::new(1024));
    let receiving = std::thread::spawn(move || receive_all(&mut reader, 1 << 20));
    // With its headers a frame of 1 MiB is 65 records.
    let payload = vec![1; 1 << 20];
    let sent =
        (0..1024 / 65).map(|number| send(&mut writer, &payload, number)).filter(io::Result::is_ok).count();
    assert_eq!(sent, 15);
    let error = send(&mut writer, &payload, 15).unwrap_err();
    assert!(error.to_string().contains("its TLS key has sealed 975 records of 1024"), "{error}");
    assert_eq!(of_io("send", &error).reason, Reason::KeyUsedUp);
    assert!(send(&mut writer, b"small", 15).is_err(), "the stream is over");
    drop(writer);
    drop(_w);
    let (received, end) = receiving.join().unwrap();
    assert_eq!(received.len(), 15);
    let Ok(Received::Cut(error)) = &end else { panic!("{end:?}") };
    assert_eq!(of_io("receive", error).reason, Reason::KeyUsedUp, "the other side sees why, too: {error}");
}

#[test]
fn in_tls_form_a_stream_that_breaks_is_not_taken_for_one_whose_key_is_used_up() {
    let ((mut writer, w), (_s, mut reader)) = streams(unix_pair(), Cipher::Tls, limits::KEY_BYTES_MAX);
    send(&mut writer, &[1; 1000], 0).unwrap();
    drop((writer, w));
    let (received, end) = receive_all(&mut reader, 1 << 20);
    let Ok(Received::Cut(error)) = &end else { panic!("{end:?}") };
    assert_eq!((received.len(), of_io("receive", error).reason), (1, Reason::Other));
}

fn tls_of(form: &WriterForm) -> &TlsStream {
    match form {
        WriterForm::Tls(tls, _) => tls,
        WriterForm::Sealed(_) | WriterForm::Kernel => panic!("not rustls"),
    }
}

fn flush(stream: &TlsStream) {
    let mut tls = stream.tls();
    while tls.wants_write() {
        tls.write_tls(&mut &*stream.socket).unwrap();
    }
}

#[test]
fn in_tls_form_hundreds_of_key_changes_in_both_directions_dead_lock_nobody() {
    let ((mut writer, _w), (server_writer, mut reader)) =
        streams(tcp_pair(), Cipher::Tls, limits::KEY_BYTES_MAX);
    let sent: Vec<Vec<u8>> = (0..400usize).map(|at| vec![at as u8; 20_000]).collect();
    let copies = sent.clone();
    let sending = std::thread::spawn(move || {
        for (number, payload) in copies.iter().enumerate() {
            tls_of(&writer.form).tls().refresh_traffic_keys().unwrap();
            send(&mut writer, payload, number as u64).unwrap();
        }
        writer.finish().unwrap();
        writer
    });
    let mut buffer = FrameBuffer::new(20_000).unwrap();
    let receiver = tls_of(&server_writer.form);
    for (number, payload) in sent.iter().enumerate() {
        // The receiver changes its key as well, and so its answers to the sender's changes leave; the sender must read
        // all that.
        if number % 30 == 0 {
            receiver.tls().refresh_traffic_keys().unwrap();
            flush(receiver);
        }
        assert!(matches!(reader.receive(&mut buffer), Ok(Received::Frame(_))));
        assert_eq!(buffer.payload(), payload);
    }
    assert!(matches!(reader.receive(&mut buffer), Ok(Received::End)));
    sending.join().unwrap();
}

#[test]
fn in_tls_form_a_receiver_that_changes_keys_without_end_is_refused() {
    let ((mut writer, _w), (server_writer, _reader)) =
        streams(tcp_pair(), Cipher::Tls, limits::KEY_BYTES_MAX);
    let receiver = tls_of(&server_writer.form);
    for _ in 0..40 {
        receiver.tls().refresh_traffic_keys().unwrap();
    }
    flush(receiver);
    assert_eq!(send(&mut writer, b"hello", 0).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn in_tls_form_a_stream_cut_or_closed_before_its_end_frame_is_cut() {
    for closes in [false, true] {
        let ((mut writer, w), (_s, mut reader)) = streams(unix_pair(), Cipher::Tls, limits::KEY_BYTES_MAX);
        send(&mut writer, b"hello", 0).unwrap();
        if closes {
            let tls = tls_of(&writer.form);
            tls.tls().send_close_notify();
            flush(tls);
        }
        drop((writer, w));
        let (received, end) = receive_all(&mut reader, 100);
        assert_eq!(received, [b"hello"]);
        assert!(matches!(end, Ok(Received::Cut(_))), "{end:?}");
    }
}

#[test]
fn in_tls_form_an_altered_record_is_refused_and_a_cut_one_is_cut() {
    for (at, flips) in [(400, true), (20_000, true), (400, false), (20_000, false)] {
        let ((client_fd, left), (right, server_fd)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        // Counts from the first byte after the handshake.
        let counting = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (is_counting, mut passed) = (counting.clone(), 0);
        let relay = between(left, right, move |mut piece| {
            if !is_counting.load(std::sync::atomic::Ordering::SeqCst) {
                return (piece, true);
            }
            let here = (passed..passed + piece.len()).contains(&at).then(|| at - passed);
            passed += piece.len();
            match here {
                Some(here) if flips => piece[here] ^= 1,
                Some(here) => piece.truncate(here),
                None => {}
            }
            (piece, here.is_none() || flips)
        });
        let (client, server) = connected((client_fd.into(), server_fd.into()));
        let (mut writer, client_half) = client.into_streams(Cipher::Tls, &SESSION, 5, Role::Client).unwrap();
        let (server_half, mut reader) = server.into_streams(Cipher::Tls, &SESSION, 5, Role::Server).unwrap();
        counting.store(true, std::sync::atomic::Ordering::SeqCst);
        let sending = std::thread::spawn(move || {
            let _ = (0..4).try_for_each(|number| send(&mut writer, &[1; 10_000], number));
            writer
        });
        let (received, end) = receive_all(&mut reader, 10_000);
        assert!(received.len() <= 2);
        match flips {
            true => assert_eq!(end.unwrap_err().kind, FailureKind::Damage),
            false => assert!(matches!(end, Ok(Received::Cut(_))), "{end:?}"),
        }
        drop((server_half, reader));
        drop((sending.join().unwrap(), client_half));
        relay.join().unwrap();
    }
}
