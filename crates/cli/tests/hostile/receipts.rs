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
    client.line.tell(T::OfferEnd(ScanTotals { entries: 1, bytes: 5, failed: 0, complete: true }));
    let finished = client
        .line
        .hear_some(AT_ONCE, |message| matches!(message, Message::Transfer(_, T::Finished(_))).then_some(()));
    assert!(finished.is_some(), "not finished");
    let open = push("data", "receipts");
    let lie = server.receipt(Side::Sender, (&client.line, &open), &[], Totals::default());
    client.line.tell(T::Receipt(Box::new(lie.clone())));
    let answered = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Receipt(signed)) => Some(signed),
        _ => None,
    });
    // The daemon says what it knows, and does not believe what it heard.
    assert_ne!(answered.expect("a statement").statement.root, lie.statement.root);
    let told = wait_until(AT_ONCE, || world.scratch.server_log().contains("transfer failed"));
    assert!(told, "{}", world.scratch.server_log());
    assert!(!world.scratch.server_log().contains("received"), "{}", world.scratch.server_log());
    drop(client);
    world.still_serves("after receipts");
}

/// A signature would say that there is a copy.
#[test]
fn what_is_thrown_away_or_was_not_moved_is_not_signed() {
    let mut world = World::new();
    let trial = |trial| Open { trial: Some(trial), ..push("data", "trial") };
    let mut dry_run = push("data", "trial");
    dry_run.terms.dry_run = true;
    let server = HostileServer::new(&world.scratch, "unused");
    for open in [trial(Trial::Null), trial(Trial::Scratch { bytes_max: 1 << 20 }), dry_run] {
        let mut client = world.client();
        client.open(open.clone()).expect("the push is opened");
        client.line.tell(T::OfferEnd(ScanTotals { entries: 0, bytes: 0, failed: 0, complete: true }));
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

/// A server that is pulled from, or pushed to, and states another root, is nobody, or speaks for somebody else: exit 4, and
/// no receipt stands there.
#[test]
fn a_server_with_a_wrong_statement_gets_no_receipt() {
    type Lie = (&'static str, fn(&HostileServer, Signed) -> Signed);
    let lies: [Lie; 9] = [
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
