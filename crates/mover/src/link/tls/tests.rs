//! Handshakes good and bad, hellos, proofs.

use super::super::testing::*;
use super::*;
use std::os::unix::net::UnixStream;
use thalweg_wire::hello::{Cipher, System};

#[test]
fn both_ends_learn_who_the_other_is_over_tcp_and_over_socketpairs() {
    for fds in [unix_pair(), tcp_pair()] {
        let (client, server) = connected(fds);
        assert_eq!(client.peer_fingerprint(), SERVER.fingerprint());
        assert_eq!(server.peer_fingerprint(), CLIENT.fingerprint());
    }
}

#[test]
fn tls_is_1_3_with_hybrid_key_exchange_and_no_ticket_follows() {
    let (client, server) = connected(unix_pair());
    assert_eq!(client.tls.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    let group = client.tls.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group, NamedGroup::X25519MLKEM768);
    let suite = client.tls.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite == CipherSuite::TLS13_AES_128_GCM_SHA256, thalweg_sys::machine::has_aes());
    let ready = socket::poll(&[(client.as_fd(), Interest::READ)], Some(Duration::from_millis(50))).unwrap();
    assert!(!ready[0].readable, "the server sent something after its handshake");
    assert!(!server.tls.wants_write());
}

#[test]
fn short_messages_do_not_wait_for_each_other() {
    let (client, server) = connected(tcp_pair());
    assert!(client.socket.nodelay().unwrap() && server.socket.nodelay().unwrap());
}

#[test]
fn a_server_with_another_certificate_is_refused() {
    let imposter = Identity::generate("server").unwrap();
    let config = server_config(&imposter, &server_trust()).unwrap();
    let (client, server) = both_ends(unix_pair(), our_client_config(), config);
    for why in [client.unwrap_err(), server.unwrap_err()] {
        assert_eq!((why.kind, why.reason), (FailureKind::Permission, Reason::NotTrusted), "{why}");
    }
}

#[test]
fn a_client_with_another_certificate_is_refused_and_hears_it_at_its_hello() {
    let stranger = Identity::generate("client").unwrap();
    let config = client_config(&stranger, &client_trust()).unwrap();
    for fds in [unix_pair(), tcp_pair()] {
        let (client, server) = both_ends(fds, config.clone(), our_server_config());
        assert_eq!(server.unwrap_err().kind, FailureKind::Permission);
        let told = client.and_then(|mut client| {
            client.hello(&Hello::new(Purpose::Control, Cipher::Aes128Gcm), LONG).map(|_| ())
        });
        let told = told.unwrap_err();
        assert_eq!((told.kind, told.reason), (FailureKind::Permission, Reason::NotTrusted), "{told}");
    }
}

#[test]
fn a_server_looks_up_in_its_register_who_is_not_pinned() {
    #[derive(Debug)]
    struct One(Fingerprint);
    impl crate::link::Register for One {
        fn knows(&self, certificate: &Fingerprint) -> bool {
            self.0.matches(certificate)
        }
    }
    let [known, stranger] = [(); 2].map(|()| Identity::generate("client").unwrap());
    let trust = ClientTrust { register: Some(Arc::new(One(known.fingerprint()))), ..server_trust() };
    let server = server_config(&SERVER, &trust).unwrap();
    for (client, is_accepted) in [(&*CLIENT, true), (&known, true), (&stranger, false)] {
        let client = client_config(client, &client_trust()).unwrap();
        assert_eq!(both_ends(unix_pair(), client, server.clone()).1.is_ok(), is_accepted);
    }
}

#[test]
fn a_server_that_takes_tokens_lets_strangers_finish_their_handshake_and_no_other_does() {
    #[derive(Debug)]
    struct Nobody(bool);
    impl crate::link::Register for Nobody {
        fn knows(&self, _: &Fingerprint) -> bool {
            false
        }

        fn takes_tokens(&self) -> bool {
            self.0
        }
    }
    let stranger = client_config(&Identity::generate("client").unwrap(), &client_trust()).unwrap();
    for takes_tokens in [true, false] {
        let trust = ClientTrust { register: Some(Arc::new(Nobody(takes_tokens))), ..server_trust() };
        let server = server_config(&SERVER, &trust).unwrap();
        assert_eq!(both_ends(unix_pair(), stranger.clone(), server).1.is_ok(), takes_tokens);
    }
}

#[test]
fn a_token_reaches_the_server_before_the_hello_and_what_becomes_of_it_is_told() {
    for (answer, wanted) in [
        (Answer::Accepted, None),
        (Answer::TokenExpired, Some((FailureKind::Permission, "has expired"))),
        (Answer::TokenRefused, Some((FailureKind::Permission, "does not take it"))),
        (Answer::TokenWithoutRights, Some((FailureKind::Permission, "no rights"))),
        (Answer::TokenUnchecked, Some((FailureKind::Busy, "cannot check it"))),
        (Answer::UnknownSession, Some((FailureKind::Protocol, "another question"))),
    ] {
        let (mut client, mut server) = connected(unix_pair());
        let longest = vec![b'x'; limits::TOKEN_BYTES_MAX];
        let shows = std::thread::spawn(move || {
            let told = client.introduce(&Token::from_bytes(&longest).unwrap(), LONG);
            (client, told)
        });
        let hello = server.read_hello(LONG).unwrap();
        assert_eq!(hello.purpose, Purpose::Token);
        assert_eq!(server.read_token(&hello, LONG).unwrap().as_str().len(), limits::TOKEN_BYTES_MAX);
        server.answer(&ServerHello { answer, ..accepted([0; 16]) }, LONG).unwrap();
        let (mut client, told) = shows.join().unwrap();
        match wanted {
            Some((kind, words)) => {
                let why = told.unwrap_err();
                assert!(why.kind == kind && why.cause.contains(words), "{why}");
                assert_eq!(why.reason == Reason::TokenNotTaken, kind == FailureKind::Permission, "{why}");
            }
            // The hello comes on the same connection.
            None => {
                told.unwrap();
                let hello = Hello::new(Purpose::Control, Cipher::Aes128Gcm);
                client.write_all(&hello.encode(), LONG).unwrap();
                assert_eq!(server.read_hello(LONG).unwrap(), hello);
            }
        }
    }
}

#[test]
fn a_server_that_trusts_nobody_lets_nobody_in() {
    let config = server_config(&SERVER, &ClientTrust::default()).unwrap();
    let (_, server) = both_ends(unix_pair(), our_client_config(), config);
    assert_eq!(server.unwrap_err().kind, FailureKind::Permission);
}

#[test]
fn a_pin_counts_from_when_it_is_set_until_it_is_removed() {
    let trust = ClientTrust::default();
    let config = server_config(&SERVER, &trust).unwrap();
    let is_let_in = || both_ends(unix_pair(), our_client_config(), config.clone()).1.is_ok();
    assert!(!is_let_in());
    assert!(trust.pinned.insert(CLIENT.fingerprint()) && !trust.pinned.insert(CLIENT.fingerprint()));
    assert!(is_let_in());
    assert!(trust.pinned.remove(&CLIENT.fingerprint()) && trust.pinned.is_empty());
    assert!(!is_let_in());
}

/// A client configuration that differs from ours in what `change` does to it.
fn odd_client(change: impl FnOnce(&mut ClientConfig)) -> Arc<ClientConfig> {
    let mut config = (*our_client_config()).clone();
    change(&mut config);
    Arc::new(config)
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(client_trust().verifier())
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let (_, server) = both_ends(unix_pair(), Arc::new(config), our_server_config());
    assert_eq!(server.unwrap_err().kind, FailureKind::Permission);
}

#[test]
fn a_certificate_without_its_key_is_of_no_use() {
    // The pinned certificate is public; the key is another's.
    let thief = Identity::generate("thief").unwrap();
    let stolen = |from: &Identity| {
        let key = rustls::sign::CertifiedKey::new(from.chain().to_vec(), thief.certified_key().unwrap().key);
        Arc::new(SingleCertAndKey::from(key))
    };
    let config = odd_client(|config| config.client_auth_cert_resolver = stolen(&CLIENT));
    let (_, server) = both_ends(unix_pair(), config, our_server_config());
    assert!(server.is_err());
    let mut config = (*our_server_config()).clone();
    config.cert_resolver = stolen(&SERVER);
    let (client, _) = both_ends(unix_pair(), our_client_config(), Arc::new(config));
    assert!(client.is_err());
}

#[test]
fn another_alpn_or_none_is_refused_by_both_sides() {
    for alpn in [vec![], vec![b"h2".to_vec()], vec![b"thalweg/2".to_vec()]] {
        let config = odd_client(|config| config.alpn_protocols = alpn.clone());
        let (client, server) = both_ends(unix_pair(), config, our_server_config());
        assert_eq!(server.unwrap_err().kind, FailureKind::Protocol);
        assert!(client.is_err());
        let mut config = (*our_server_config()).clone();
        config.alpn_protocols = alpn;
        let (client, _) = both_ends(unix_pair(), our_client_config(), Arc::new(config));
        assert_eq!(client.unwrap_err().kind, FailureKind::Protocol);
    }
}

/// A ClientHello that offers TLS 1.2 and nothing later, as an older library writes it.
fn tls12_client_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    // ECDHE-ECDSA and ECDHE-RSA with AES-128-GCM.
    body.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0]);
    let extensions = [
        // supported_groups: X25519; ec_point_formats; signature_algorithms; ALPN.
        &[0, 10, 0, 4, 0, 2, 0, 29][..],
        &[0, 11, 0, 2, 1, 0],
        &[0, 13, 0, 6, 0, 4, 8, 7, 4, 3],
        &[0, 16, 0, 12, 0, 10, 9],
        ALPN,
    ]
    .concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}

#[test]
fn a_client_that_speaks_tls_1_2_only_is_refused_with_protocol_version() {
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(&tls12_client_hello()).unwrap();
    let failure = Connection::accept(server.into(), our_server_config(), LONG).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol);
    let mut alert = Vec::new();
    client.read_to_end(&mut alert).unwrap();
    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 70], "fatal alert protocol_version");
}

#[test]
fn noise_instead_of_tls_is_refused() {
    for noise in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 3, 1, 0xff, 0xff, 1], &[0; 64], b"SSH-2.0-OpenSSH_9.9\r\n"]
    {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(noise).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let failure = Connection::accept(server.into(), our_server_config(), LONG).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::Protocol | FailureKind::Connection), "{failure}");
    }
}

#[test]
fn a_peer_that_drips_or_is_silent_is_cut_at_the_total_deadline() {
    for drips in [true, false] {
        let (mut client, server) = UnixStream::pair().unwrap();
        let dripping = std::thread::spawn(move || {
            // A record of 16 KiB, a byte at a time: each arrives well within the deadline.
            for byte in [22, 3, 1, 0x40, 0].into_iter().chain(std::iter::repeat(1)) {
                if drips && client.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
                if !drips && client.read(&mut [0]).is_ok() {
                    return;
                }
            }
        });
        let began = Instant::now();
        let failure =
            Connection::accept(server.into(), our_server_config(), Duration::from_millis(300)).unwrap_err();
        let took = began.elapsed();
        assert_eq!(failure.kind, FailureKind::Connection);
        assert!(failure.cause.contains("within 0.3 s"), "{failure}");
        // The whole record would take almost three minutes.
        assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(30), "{took:?}");
        dripping.join().unwrap();
    }
}

#[test]
fn a_peer_that_drips_inside_tls_is_cut_at_the_hellos_deadline() {
    let (mut client, mut server) = connected(unix_pair());
    let stop = client.stop_handle();
    let dripping = std::thread::spawn(move || {
        for byte in Hello::new(Purpose::Control, Cipher::Aes128Gcm).encode() {
            if client.write_all(&[byte], LONG).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let failure = server.read_hello(Duration::from_millis(300)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    stop.stop();
    dripping.join().unwrap();
}

#[test]
fn a_handshake_cut_at_any_byte_is_an_error_on_both_sides() {
    for cut in (0..6000).step_by(211) {
        let ((client, left), (right, server)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let mut left_bytes = cut;
        let relay = between(left, right, move |piece| {
            let passed = piece[..piece.len().min(left_bytes)].to_vec();
            left_bytes -= passed.len();
            (passed, left_bytes > 0)
        });
        let (_, server) = both_ends((client.into(), server.into()), our_client_config(), our_server_config());
        let told = server.and_then(|mut server| server.read_hello(LONG));
        assert_eq!(told.unwrap_err().kind, FailureKind::Connection, "cut at {cut}");
        relay.join().unwrap();
    }
}

fn accepted(session: SessionId) -> ServerHello {
    ServerHello {
        version: 1,
        versions: (1, 1),
        answer: Answer::Accepted,
        cipher: Cipher::Aes128Gcm,
        features: 0,
        session,
        system: System::default(),
    }
}

/// Client and server of one exchange of hellos.
fn exchange(hello: Hello, answer: ServerHello) -> (Result<ServerHello>, Result<Hello>) {
    let (mut client, mut server) = connected(unix_pair());
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let hello = server.read_hello(LONG)?;
            server.answer(&answer, LONG)?;
            Ok(hello)
        });
        (client.hello(&hello, LONG), serving.join().unwrap())
    })
}

#[test]
fn hellos_are_exchanged() {
    let hello = Hello { features: 5, ..Hello::new(Purpose::Control, Cipher::Aes128Gcm) };
    let (answer, read) = exchange(hello, accepted([7; 16]));
    assert_eq!(answer.unwrap(), accepted([7; 16]));
    assert_eq!(read.unwrap(), hello);
}

#[test]
fn without_a_version_in_common_both_sides_say_which_versions_there_are() {
    let newer = Hello { versions: (7, 9), ..Hello::new(Purpose::Control, Cipher::Aes128Gcm) };
    let (answer, read) = exchange(newer, accepted([7; 16]));
    let (answer, read) = (answer.unwrap_err(), read.unwrap_err());
    assert_eq!((answer.kind, read.kind), (FailureKind::Protocol, FailureKind::Protocol));
    assert_eq!(
        answer.cause,
        "the peer speaks protocol versions 1 to 1, this thalweg 7 to 9: update the older side"
    );
    assert_eq!(
        read.cause,
        "the peer speaks protocol versions 7 to 9, this thalweg 1 to 1: update the older side"
    );
}

#[test]
fn a_later_versions_hello_is_answered_by_its_head_alone() {
    let (mut client, mut server) = connected(unix_pair());
    let mut bytes = Hello { versions: (2, 2), ..Hello::new(Purpose::Control, Cipher::Aes128Gcm) }.encode();
    (bytes[12], bytes[80]) = (200, 1);
    client.write_all(&bytes, LONG).unwrap();
    assert!(server.read_hello(LONG).unwrap_err().cause.contains("versions 2 to 2"));
    let mut answer = [0; ANSWER_BYTES];
    client.read_exact(&mut answer, LONG).unwrap();
    assert_eq!(ServerHello::decode(&answer).unwrap().answer, Answer::Version);
}

#[test]
fn answers_that_do_not_fit_the_hello_are_refused() {
    let control = Hello::new(Purpose::Control, Cipher::Aes128Gcm);
    let stream = Hello { session: [7; 16], ..Hello::new(Purpose::Stream, Cipher::Aes128Gcm) };
    let good = accepted([7; 16]);
    for (hello, answer, kind) in [
        (control, accepted([0; 16]), FailureKind::Protocol),
        (stream, accepted([8; 16]), FailureKind::Protocol),
        (control, ServerHello { version: 2, ..good }, FailureKind::Protocol),
        (control, ServerHello { version: 0, ..good }, FailureKind::Protocol),
        (control, ServerHello { version: 1, versions: (2, 3), ..good }, FailureKind::Protocol),
        (control, ServerHello { cipher: Cipher::Aes256Gcm, ..good }, FailureKind::Protocol),
        (stream, ServerHello { cipher: Cipher::Tls, ..good }, FailureKind::Protocol),
        (control, ServerHello { answer: Answer::Busy, ..good }, FailureKind::Busy),
        (stream, ServerHello { answer: Answer::UnknownSession, ..good }, FailureKind::NotFound),
    ] {
        assert_eq!(exchange(hello, answer).0.unwrap_err().kind, kind, "{answer:?}");
    }
}

#[test]
fn both_ends_export_the_same_session_key_and_every_connection_another() {
    let (client, server) = connected(unix_pair());
    let (other, _) = connected(unix_pair());
    assert_eq!(client.export_session_key().unwrap(), server.export_session_key().unwrap());
    assert_ne!(client.export_session_key().unwrap(), other.export_session_key().unwrap());
}

#[test]
fn a_proof_is_of_one_session_one_stream_one_connection_and_one_key() {
    let (client, server) = connected(unix_pair());
    let (elsewhere, _) = connected(unix_pair());
    let (key, session) = ([1; 32], [2; 16]);
    let theirs = stream_proof(&key, &client, &session, 3).unwrap();
    assert!(proof_matches(&stream_proof(&key, &server, &session, 3).unwrap(), &theirs));
    for other in [
        stream_proof(&[9; 32], &server, &session, 3),
        stream_proof(&key, &server, &[9; 16], 3),
        stream_proof(&key, &server, &session, 4),
        stream_proof(&key, &elsewhere, &session, 3),
        resume_proof(&key, &server, &session),
    ] {
        assert!(!proof_matches(&other.unwrap(), &theirs));
    }
    let resume = resume_proof(&key, &client, &session).unwrap();
    assert!(proof_matches(&resume_proof(&key, &server, &session).unwrap(), &resume));
    assert!(!proof_matches(&stream_proof(&key, &server, &session, 0).unwrap(), &resume));
}

#[test]
fn reads_stop_at_the_end_of_the_record() {
    let (client, mut server) = connected(unix_pair());
    let hello = Hello::new(Purpose::Stream, Cipher::Aes128Gcm);
    let mut tls = client.tls;
    tls.writer().write_all(&hello.encode()).unwrap();
    let mut raw = &*client.socket;
    tls.write_tls(&mut raw).unwrap();
    raw.write_all(b"what follows is no TLS").unwrap();
    assert_eq!(server.read_hello(LONG).unwrap(), hello);
    assert!(!server.holds_plaintext());
    let mut rest = [0; 22];
    assert_eq!(socket::receive_exact(&server, &mut rest).unwrap(), 22);
    assert_eq!(&rest, b"what follows is no TLS");
}

#[test]
fn a_handshake_done_elsewhere_is_taken_over_wherever_it_stopped_reading() {
    let hello = Hello::new(Purpose::Stream, Cipher::Aes128Gcm);
    // How much of the hello's record the other implementation has read along with the handshake.
    for ahead in [0, 1, 4, 5, 6, 60, 117, 118] {
        let (client_fd, server_fd) = unix_pair();
        let client = std::thread::spawn(move || {
            let client = Connection::connect(client_fd, our_client_config(), LONG).unwrap();
            let mut tls = client.tls;
            tls.writer().write_all(&hello.encode()).unwrap();
            let mut raw = &*client.socket;
            tls.write_tls(&mut raw).unwrap();
            raw.write_all(b"sealed").unwrap();
            client.socket.set_nonblocking(false).unwrap();
            raw.read_exact(&mut [0]).unwrap();
        });
        let mut socket = UnixStream::from(server_fd);
        let mut tls = ServerConnection::new(our_server_config()).unwrap();
        while tls.is_handshaking() {
            while tls.wants_write() {
                tls.write_tls(&mut socket).unwrap();
            }
            tls.read_tls(&mut { &socket }.take(1)).unwrap();
            tls.process_new_packets().unwrap();
        }
        for _ in 0..ahead {
            assert_eq!(tls.read_tls(&mut { &socket }.take(1)).unwrap(), 1);
            tls.process_new_packets().unwrap();
        }
        let mut server = Connection::from_parts(socket.into(), tls).unwrap();
        assert_eq!(server.peer_fingerprint(), CLIENT.fingerprint());
        assert_eq!(server.read_hello(LONG).unwrap(), hello, "{ahead}");
        let mut rest = [0; 6];
        server.socket.set_nonblocking(false).unwrap();
        assert_eq!(socket::receive_exact(&server, &mut rest).unwrap(), 6);
        assert_eq!(&rest, b"sealed", "{ahead}");
        server.socket.as_ref().write_all(b"x").unwrap();
        client.join().unwrap();
    }
}

#[test]
fn a_handshake_that_is_not_done_is_not_taken_over() {
    let tls = ServerConnection::new(our_server_config()).unwrap();
    assert_eq!(Connection::from_parts(unix_pair().0, tls).unwrap_err().kind, FailureKind::Protocol);
}
