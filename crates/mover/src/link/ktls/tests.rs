//! What is decided, and what is told of it. Streams that the kernel seals: `cargo xtask ktls`.

use super::super::testing::*;
use super::*;

const SUITE: Option<CipherSuite> = Some(CipherSuite::TLS13_AES_128_GCM_SHA256);

#[test]
fn without_ktls_in_the_kernel_the_reason_is_said_and_user_space_seals() {
    let probed = ktls::probe(Cipher::Aes128Gcm);
    let decision = KernelTls::On.decide(SUITE);
    assert_eq!(decision.is_used, probed.is_ok(), "{decision}");
    match probed {
        Ok(()) => assert_eq!(decision.to_string(), "kTLS: used (AES-128-GCM)"),
        Err(Lacking::Ktls(error)) if error.kind() == io::ErrorKind::NotFound => {
            assert_eq!(decision.to_string(), "kTLS: not used: the kernel has none (ENOENT)");
        }
        Err(_) => assert!(decision.to_string().starts_with("kTLS: not used: the kernel"), "{decision}"),
    }
}

#[test]
fn nothing_is_tried_that_is_switched_off_or_not_for_the_kernel() {
    assert_eq!(KernelTls::Off.decide(SUITE).to_string(), "kTLS: not used: --ktls off");
    assert!(!KernelTls::On.decide(Some(CipherSuite::TLS13_AES_128_CCM_SHA256)).is_used);
    assert!(!KernelTls::On.decide(None).is_used);
}

#[test]
fn auto_uses_the_kernel_only_where_it_was_faster_beyond_noise() {
    let judged = |kernel, user_space| Measured { suite: SUITE, kernel, user_space }.judge("AES-128-GCM");
    assert!(!judged(1e9, 1e9).is_used);
    assert!(!judged(1.05e9, 1e9).is_used);
    let used = judged(1.2e9, 1e9);
    assert!(used.is_used);
    let text = "kTLS: used (AES-128-GCM; measured 1200 MB/s over loopback, 1000 MB/s in user space)";
    assert_eq!(used.to_string(), text);
}

#[test]
fn a_trial_in_user_space_agrees_on_a_suite_and_takes_time() {
    let (suite, rate) = trial(KernelTls::Off).unwrap();
    assert!(suite.and_then(cipher_of).is_some());
    assert!(rate.is_finite() && rate > 0.0);
}

#[test]
fn what_is_no_tcp_socket_keeps_its_connection() {
    let (client, _server) = connected(unix_pair());
    let (socket, tls) = (client.socket, client.tls);
    let (tls, why) = hand_over(&socket, tls).unwrap().unwrap_err();
    assert!(why.starts_with("the socket does not take it ("), "{why}");
    assert!(!tls.is_handshaking());
}

// Where the kernel has kTLS: in the guest of `cargo xtask ktls`, if not here.

const CIPHERS: [(CipherSuite, Cipher); 3] = [
    (CipherSuite::TLS13_AES_128_GCM_SHA256, Cipher::Aes128Gcm),
    (CipherSuite::TLS13_AES_256_GCM_SHA384, Cipher::Aes256Gcm),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, Cipher::ChaCha20Poly1305),
];
const SESSION: hello::SessionId = [3; 16];

/// Whether the rest of a test can be done.
fn kernel_has(cipher: Cipher) -> bool {
    probed(cipher).inspect_err(|why| println!("skipped: kTLS: {why}")).is_ok()
}

/// Both ends over TCP with this suite, client first.
fn connected_with(suite: CipherSuite) -> (Connection, Connection) {
    let mut provider = (*super::super::tls::provider()).clone();
    provider.cipher_suites.retain(|offered| offered.suite() == suite);
    let client =
        super::super::tls::client_config_with(&CLIENT, &client_trust(), std::sync::Arc::new(provider))
            .unwrap();
    let (client, server) = both_ends(tcp_pair(), client, our_server_config());
    (client.unwrap(), server.unwrap())
}

fn streams(
    mut connection: Connection,
    kernel: KernelTls,
    role: Role,
) -> (super::super::FrameWriter, super::super::FrameReader) {
    connection.set_tls_form(TlsForm { kernel, ..TlsForm::default() });
    let (writer, reader) = connection.into_streams(hello::Cipher::Tls, &SESSION, 5, role).unwrap();
    let decision = writer.kernel_tls().unwrap();
    assert_eq!(decision.is_used, kernel == KernelTls::On, "{decision}");
    (writer, reader)
}

fn send(writer: &mut super::super::FrameWriter, payload: &[u8]) -> io::Result<()> {
    let mut buffer = FrameBuffer::new(payload.len()).unwrap();
    buffer.payload_mut().copy_from_slice(payload);
    let inner = Inner {
        kind: FrameKind::Segment,
        encoding: Encoding::Raw,
        transfer: TransferNumber(1),
        raw_bytes: payload.len() as u32,
        entry: EntryId(0),
        offset: 0,
        digest: Digest([7; 32]),
        is_again: false,
    };
    writer.send(&mut buffer, payload.len(), &inner)
}

#[test]
fn frames_are_the_same_whoever_seals_and_opens_them_with_every_cipher() {
    for (suite, cipher) in CIPHERS {
        if !kernel_has(cipher) {
            continue;
        }
        for (client_kernel, server_kernel) in
            [(KernelTls::On, KernelTls::On), (KernelTls::On, KernelTls::Off), (KernelTls::Off, KernelTls::On)]
        {
            let (client, server) = connected_with(suite);
            let client = streams(client, client_kernel, Role::Client);
            let server = streams(server, server_kernel, Role::Server);
            let payloads: Vec<Vec<u8>> = [0usize, 1, 16_000, 16_384, 70_000, 1 << 20]
                .iter()
                .map(|&length| (0..length).map(|at| (at * 7) as u8).collect())
                .collect();
            let work = |(mut writer, mut reader): (super::super::FrameWriter, super::super::FrameReader)| {
                std::thread::scope(|scope| {
                    let sending = scope.spawn(|| {
                        payloads.iter().for_each(|payload| send(&mut writer, payload).unwrap());
                        writer.finish().unwrap();
                    });
                    let mut buffer = FrameBuffer::new(1 << 20).unwrap();
                    for payload in &payloads {
                        assert!(matches!(reader.receive(&mut buffer), Ok(Received::Frame(_))), "{suite:?}");
                        assert!(buffer.payload() == payload, "{suite:?}, {} bytes", payload.len());
                    }
                    assert!(matches!(reader.receive(&mut buffer), Ok(Received::End)));
                    sending.join().unwrap();
                });
            };
            // Both directions at once, as in a session that pushes and pulls.
            std::thread::scope(|scope| {
                scope.spawn(|| work(client));
                work(server);
            });
        }
    }
}

/// What a stream that the kernel opens says to what `say` has rustls send at the other end.
fn received_after(say: impl FnOnce(&mut rustls::Connection)) -> Result<Received> {
    let (mut client, server) = connected_with(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let (_writer, mut reader) = streams(server, KernelTls::On, Role::Server);
    say(&mut client.tls);
    while client.tls.wants_write() {
        client.tls.write_tls(&mut &*client.socket).unwrap();
    }
    reader.set_timeouts(Some(LONG), Some(LONG)).unwrap();
    reader.receive(&mut FrameBuffer::new(100).unwrap())
}

#[test]
fn what_is_no_data_ends_a_stream_that_the_kernel_opens_and_says_what_it_was() {
    if !kernel_has(Cipher::Aes128Gcm) {
        return;
    }
    // As without a word: only an End frame is an end.
    let closed = received_after(|tls| tls.send_close_notify());
    assert!(
        matches!(&closed, Ok(Received::Cut(error)) if error.kind() == io::ErrorKind::UnexpectedEof),
        "{closed:?}"
    );
    let rekeyed = received_after(|tls| tls.refresh_traffic_keys().unwrap());
    assert!(
        matches!(&rekeyed, Ok(Received::Cut(error)) if error.to_string().contains("no data")),
        "{rekeyed:?}"
    );
}

#[test]
fn a_record_that_was_altered_is_damage_for_the_kernel_too() {
    use std::io::Write;
    if !kernel_has(Cipher::Aes128Gcm) {
        return;
    }
    let (client, server) = connected_with(CipherSuite::TLS13_AES_128_GCM_SHA256);
    let (_writer, mut reader) = streams(server, KernelTls::On, Role::Server);
    let mut record = vec![23, 3, 3, 0, 40];
    record.extend([0x55; 40]);
    (&*client.socket).write_all(&record).unwrap();
    reader.set_timeouts(Some(LONG), Some(LONG)).unwrap();
    let failure = reader.receive(&mut FrameBuffer::new(100).unwrap()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Damage);
}

#[test]
fn both_ways_are_measured_where_there_are_two() {
    if !kernel_has(Cipher::Aes128Gcm) {
        return;
    }
    let decision = KernelTls::Auto.decide(SUITE);
    println!("{decision}");
    assert!(decision.to_string().contains("measured"), "{decision}");
}
