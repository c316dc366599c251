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
    let lie = server.receipt(Side::Sender, &terms(), &[], Totals::default());
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

/// A server that is pulled from, or pushed to, and states another root, is nobody, or speaks for somebody else: exit 4, and
/// no receipt stands there.
#[test]
fn a_server_with_a_wrong_statement_gets_no_receipt() {
    type Lie = (&'static str, fn(&HostileServer, Signed) -> Signed);
    let lies: [Lie; 6] = [
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
        ("another peer", |server, signed| server.sign(Statement { peer: [1; 32], ..signed.statement })),
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
