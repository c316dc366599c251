//! Statements about another transfer, or by somebody else.

use super::*;

#[test]
fn a_receipt_with_another_root_is_no_receipt() {
    let mut world = World::new();
    std::fs::write(world.export("one"), b"five!").unwrap();
    let server = HostileServer::new(&world.scratch, "unused");
    // As sender.
    let (mut client, mut stream) = world.pushing("receipts");
    offer_and_hear_want(&mut client, vec![file(0, "small", 5)]);
    stream.packed(b"five!", PackItem { entry: EntryId(0), bytes: 5, digest: digest_of(b"five!") });
    client.line.tell(T::OfferEnd(ScanTotals { entries: 1, bytes: 5, failed: 0, complete: true, empty: 0 }));
    let finished = client
        .line
        .hear_some(AT_ONCE, |message| matches!(message, Message::Transfer(_, T::Finished(_))).then_some(()));
    assert!(finished.is_some(), "not finished");
    let open = push("data", "receipts");
    let lie = server.receipt(Side::Sender, (&client.line, &open), &[], Totals::default());
    client.line.tell(T::Receipt(Box::new(lie)));
    let answered = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, word @ (T::Receipt(_) | T::Abort(_))) => Some(word),
        _ => None,
    });
    // With a statement of the daemon the client could make a receipt that its log does not have.
    let Some(T::Abort(why)) = answered else { panic!("{answered:?}") };
    assert_eq!(why.kind, FailureKind::Damage, "{why:?}");
    let told = wait_until(AT_ONCE, || world.scratch.server_log().contains("transfer failed"));
    assert!(told, "{}", world.scratch.server_log());
    assert!(!world.scratch.server_log().contains("received"), "{}", world.scratch.server_log());
    drop(client);
    world.still_serves("after receipts");
}

/// It can sign the receiver's half alone: the log has the root of what was made of it.
#[test]
fn what_a_daemon_stated_to_a_client_that_did_not_answer_is_in_its_log() {
    let mut world = World::new();
    std::fs::write(world.export("one"), b"five!").unwrap();
    let mut client = world.client();
    client.open(pull("data", "one")).expect("a pull");
    let offered = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Offer(entries)) => Some(entries[0].id),
        _ => None,
    });
    let ended = |message| matches!(message, Message::Transfer(_, T::OfferEnd(_))).then_some(());
    client.line.hear_some(AT_ONCE, ended).expect("the end of its offers");
    let unchanged = Outcome::Unchanged { digest: None };
    client.line.tell(T::Settled(vec![(offered.expect("an offer"), unchanged)]));
    client.line.tell(T::Finished(Totals { unchanged: 1, ..Totals::default() }));
    let stated = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Receipt(signed)) => Some(signed.statement.root.to_string()),
        _ => None,
    });
    let stated = stated.expect("a statement");
    client.line.say(&Message::Goodbye(None));
    let told = || {
        let log = world.scratch.server_log();
        log.lines().any(|line| line.contains("transfer failed") && line.contains(&stated))
    };
    assert!(wait_until(AT_ONCE, told), "{}", world.scratch.server_log());
    drop(client);
    world.still_serves("after a statement without an answer");
}

/// A signature would say that there is a copy.
#[test]
fn what_is_thrown_away_or_was_not_moved_is_not_signed() {
    let mut world = World::new();
    let trial = |trial| push_trial("data", "trial", trial);
    let mut dry_run = push("data", "trial");
    dry_run.terms.dry_run = true;
    let server = HostileServer::new(&world.scratch, "unused");
    for open in [trial(PushTrial::Null), trial(PushTrial::Scratch { bytes_max: 1 << 20 }), dry_run] {
        let mut client = world.client();
        client.open(open.clone()).expect("the push is opened");
        client.line.tell(T::OfferEnd(ScanTotals {
            entries: 0,
            bytes: 0,
            failed: 0,
            complete: true,
            empty: 0,
        }));
        let finished = client.line.hear_some(AT_ONCE, |message| match message {
            Message::Transfer(_, T::Finished(totals)) => Some(totals),
            _ => None,
        });
        let totals = finished.expect("it is finished");
        let signed = server.receipt(Side::Sender, (&client.line, &open), &[], totals);
        client.line.tell(T::Receipt(Box::new(signed)));
        client.line.tell(T::Unsigned);
        let last = client.line.hear_some(AT_ONCE, |message| match message {
            Message::Transfer(_, word @ (T::Receipt(_) | T::Unsigned)) => Some(word),
            _ => None,
        });
        assert_eq!(last, Some(T::Unsigned), "{open:?}");
    }
    world.still_serves("after what nobody signs");
}

/// A server that is pulled from, or pushed to, and states another root, is nobody, or speaks for somebody else: exit 4,
/// and no receipt stands there.
#[test]
fn a_server_with_a_wrong_statement_gets_no_receipt() {
    type Lie = (&'static str, fn(&HostileServer, Signed) -> Signed);
    let lies: [Lie; 11] = [
        ("another root", |server, signed| {
            server.sign(Statement { root: Digest([7; 32]), ..signed.statement })
        }),
        ("other totals", |server, signed| {
            let totals = Totals { failed: 1, ..signed.statement.totals };
            server.sign(Statement { totals, ..signed.statement })
        }),
        ("a signature of something else", |_, mut signed| {
            signed.statement.signed_at += 1;
            signed
        }),
        ("another certificate", |_, signed| {
            let somebody = Identity::generate("somebody").unwrap();
            sign(&somebody, signed.statement)
        }),
        ("another peer", |server, signed| {
            let peer = Signatory { certificate: [1; 32], ..signed.statement.peer };
            server.sign(Statement { peer, ..signed.statement })
        }),
        ("another signer", |server, signed| {
            let signer = Signatory { is_ephemeral: true, ..signed.statement.signer };
            server.sign(Statement { signer, ..signed.statement })
        }),
        ("another session", |server, signed| {
            server.sign(Statement { session: Some(Digest([7; 32])), ..signed.statement })
        }),
        ("another kind", |server, signed| {
            server.sign(Statement { kind: TransferKind::Stream, ..signed.statement })
        }),
        ("another level", |server, signed| {
            server.sign(Statement { verify: VerifyLevel::Paranoid, ..signed.statement })
        }),
        ("what is the client's to say", |server, signed| {
            let (place, statement) = (Place { export: None, path: b"/".to_vec() }, signed.statement);
            server.sign(match statement.side {
                Side::Sender => Statement { place: Some(place), ..statement },
                Side::Receiver => Statement { unread: 1, ..statement },
            })
        }),
        ("the header of another receipt", |server, signed| {
            server.sign(Statement { header: Some(Digest([7; 32])), ..signed.statement })
        }),
    ];
    for (words, lie) in lies {
        for pulls in [true, false] {
            let scratch = Scratch::new();
            let server = HostileServer::new(&scratch, "bad-ticket");
            let receipt = scratch.path("receipt");
            std::fs::write(scratch.path("file"), b"five!").unwrap();
            let (here, there) = (scratch.path("file").display().to_string(), server.place("x"));
            let to = scratch.path("to").display().to_string();
            let places = if pulls { [there, to] } else { [here, there] };
            let mut job = patient_cp(&scratch, &server, &places);
            job.arg("--receipt").arg(&receipt);
            let job = Running::start(job);
            let ends = Instant::now() + Duration::from_secs(20);
            if pulls {
                silence::send_until(&server, silence::Step::Never, false, ends, &|signed| {
                    lie(&server, signed)
                });
            } else {
                silence::receive_until(&server, silence::Step::Never, false, ends, &|signed| {
                    lie(&server, signed)
                });
            }
            let ran = job.end(Duration::from_secs(60));
            assert_eq!(ran.code, Some(4), "{words}, pulls {pulls}: {}", ran.stderr);
            assert!(!receipt.exists(), "{words}, pulls {pulls}");
        }
    }
}
