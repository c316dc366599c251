//! Receivers that lie: a client that pulls, a server that is pushed to.

use super::*;

#[test]
fn a_receiver_that_wants_what_is_not_there_loses_its_session() {
    let mut world = World::new();
    std::fs::create_dir(world.export("tree")).unwrap();
    std::fs::write(world.export("tree/large"), noise(8, 5 * CHUNK as usize)).unwrap();
    std::fs::write(world.export("tree/small"), b"five!").unwrap();
    type Lie = (&'static str, fn(EntryId, EntryId) -> Vec<T>);
    let lies: Vec<Lie> = vec![
        ("want beyond the end", |large, _| {
            vec![T::Want(vec![(large, Want::Missing(vec![Run { first: 5, count: 1 }]))])]
        }),
        ("want that overflows", |large, _| {
            vec![T::Want(vec![(large, Want::Missing(vec![Run { first: u64::MAX, count: 2 }]))])]
        }),
        ("want twice", |_, small| vec![T::Want(vec![(small, Want::Whole), (small, Want::Whole)])]),
        ("want of nothing", |_, _| vec![T::Want(vec![(EntryId(999), Want::Whole)])]),
        ("want without end", |large, _| vec![T::Want(vec![(large, Want::Missing(Vec::new())); 100])]),
        ("want to compare beyond the end", |large, _| {
            vec![T::Want(vec![(large, Want::Compare(vec![Run { first: 1 << 40, count: 1 }]))])]
        }),
        ("ack beyond the end", |large, _| {
            vec![T::Ack(AckLevel::Verified, vec![(large, Run { first: 4, count: 2 })])]
        }),
        ("ack of nothing", |_, _| {
            vec![T::Ack(AckLevel::Durable, vec![(EntryId(999), Run { first: 0, count: 1 })])]
        }),
        ("ack that overflows", |large, _| {
            vec![T::Ack(AckLevel::Durable, vec![(large, Run { first: u64::MAX - 1, count: 9 })])]
        }),
        ("repair beyond the end", |large, _| {
            vec![T::Want(vec![(large, Want::Whole)]), T::Repair(vec![(large, Run { first: 5, count: 1 })])]
        }),
        ("repair of what was not sent", |large, _| {
            vec![T::Repair(vec![(large, Run { first: 0, count: 1 })])]
        }),
        ("repair of nothing", |_, _| vec![T::Repair(vec![(EntryId(999), Run { first: 0, count: 1 })])]),
        ("digests beyond the end", |large, _| {
            vec![T::Have { entry: large, first: 4, digests: vec![Digest::default(); 2] }]
        }),
        ("digests at the end of numbers", |large, _| {
            vec![T::Have { entry: large, first: u64::MAX, digests: vec![Digest::default(); 2] }]
        }),
        ("finished too early", |_, _| vec![T::Finished(Totals::default())]),
        ("what only a sender says", |_, _| vec![T::OfferEnd(ScanTotals::default())]),
        ("an offer", |_, _| vec![T::Offer(vec![file(0, "x", 5)])]),
    ];
    for (words, lie) in lies {
        let mut client = world.client();
        let (large, small) = open_tree(&mut client);
        for message in lie(large, small) {
            client.line.tell(message);
        }
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    // An empty want is no want; digests of another file only make this one fail.
    let mut client = world.client();
    let (large, _) = open_tree(&mut client);
    client.line.tell(T::Want(vec![(large, Want::Missing(vec![Run { first: 2, count: 0 }]))]));
    world.is_unharmed("an empty want");
    drop(client);

    // For ever.
    let mut client = world.client();
    let (large, _) = open_tree(&mut client);
    let mut stream = client.stream(0);
    client.line.tell(T::Want(vec![(large, Want::Whole)]));
    std::thread::spawn(move || while stream.receive().is_some() {});
    for _ in 0..500 {
        if !client.line.tell(T::Repair(vec![(large, Run { first: 0, count: 5 })])) {
            break;
        }
    }
    let withdrawn = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Withdraw(items)) => {
            items.into_iter().find(|(id, why)| *id == large && why.is_some())
        }
        Message::Goodbye(_) => Some((large, None)),
        _ => None,
    });
    assert!(withdrawn.is_some(), "repaired without end");
    drop(client);
    world.still_serves("after a hostile receiver");
}

/// Opens a pull of `tree`; numbers of its two files.
#[track_caller]
fn open_tree(client: &mut HostileClient) -> (EntryId, EntryId) {
    client.open(pull("data", "tree/")).expect("a pull");
    let mut ids = BTreeMap::new();
    let found = client.line.hear_some(AT_ONCE, |message| {
        if let Message::Transfer(_, T::Offer(entries)) = message {
            ids.extend(entries.into_iter().map(|entry| (entry.path.to_string(), entry.id)));
        }
        Some((*ids.get("large")?, *ids.get("small")?))
    });
    found.expect("both files are offered")
}

#[test]
fn a_receiver_that_lies_about_what_it_has_does_not_get_exit_0() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"five!").unwrap();
    std::fs::write(scratch.path("large"), noise(3, 5 * CHUNK as usize)).unwrap();
    // With whether it is one that no receiver may say: of others the client only fails.
    type Lie = (&'static str, bool, Vec<T>);
    let settled = |outcome| T::Settled(vec![(EntryId(0), outcome)]);
    let finished = || T::Finished(Totals { done: 1, ..Totals::default() });
    let lies: Vec<Lie> = vec![
        ("finished at once", true, vec![finished()]),
        (
            "want beyond the end",
            true,
            vec![T::Want(vec![(EntryId(0), Want::Missing(vec![Run { first: 77, count: 1 }]))])],
        ),
        ("want of nothing", true, vec![T::Want(vec![(EntryId(77), Want::Whole)])]),
        (
            "ack beyond the end",
            true,
            vec![T::Ack(AckLevel::Verified, vec![(EntryId(0), Run { first: 77, count: 1 })])],
        ),
        ("an offer", true, vec![T::Offer(vec![file(0, "planted", 5)])]),
        (
            "repair without end",
            true,
            (0..200).map(|_| T::Repair(vec![(EntryId(0), Run { first: 0, count: 1 })])).collect(),
        ),
        (
            "abort",
            false,
            vec![T::Abort(Failure::new(FailureKind::Internal, "write", "no\u{1b}[31m\u{9b}\u{7f}more"))],
        ),
        (
            "failed",
            false,
            vec![
                settled(Outcome::Failed(Failure::new(
                    FailureKind::Io,
                    "wr\u{1b}ite",
                    "\u{1b}]0;x\u{7}\u{85}",
                ))),
                finished(),
            ],
        ),
        ("no receipt", false, vec![settled(done(Some(digest_of(b"five!")))), finished()]),
        ("another digest", false, vec![settled(done(Some(Digest([9; 32])))), finished()]),
    ];
    for (words, is_breach, lie) in lies {
        for name in ["file", "large"] {
            let server = HostileServer::new(&scratch, "bad-ticket");
            let source = scratch.path(name).display().to_string();
            let mut job = cp(&scratch, &server, &[source, server.place("x")]);
            job.args(["-vv"]);
            let job = Running::start(job);
            let mut line = server.session().expect("the client comes");
            let open = agree(&mut line, SourceForm::Many).expect("an open");
            let offered = line.hear_some(SOON, |message| match message {
                Message::Transfer(_, T::Offer(entries)) => Some(entries[0].clone()),
                _ => None,
            });
            let offered = offered.expect("an offer");
            if words == "another digest" {
                // Only of what was sent can it be known.
                line.tell(T::Want(vec![(EntryId(0), Want::Whole)]));
                let mut stream = server.stream(SOON).expect("a stream");
                std::thread::spawn(move || while stream.receive().is_some() {});
                let _ = line.hear(Duration::from_secs(2));
                std::thread::sleep(Duration::from_millis(500));
            }
            for message in &lie {
                line.tell(message.clone());
            }
            // What comes after is answered as an honest receiver would, with a receipt over what was claimed.
            let claimed: Vec<(Entry, Outcome)> = lie
                .iter()
                .filter_map(|message| match message {
                    T::Settled(items) => Some((offered.clone(), items[0].1.clone())),
                    _ => None,
                })
                .collect();
            if words != "no receipt" {
                let totals = Totals { done: 1, ..Totals::default() };
                let signed = server.receipt(Side::Receiver, (&line, &open), &claimed, totals);
                line.tell(T::Receipt(Box::new(signed)));
            }
            let is_refused = match is_breach {
                true => is_told_breach(&mut line),
                false => line.is_ended(Duration::from_secs(3)),
            };
            drop(line);
            drop(server);
            let ran = job.end(Duration::from_secs(60));
            println!(
                "{words} {name}: {:?} after {:?}: {}",
                ran.code,
                ran.took,
                ran.stderr.lines().last().unwrap_or("")
            );
            assert_ne!(ran.code, Some(0), "{words} {name}: {}{}", ran.stdout, ran.stderr);
            // Its goodbye may be lost where we had more to say than it heard.
            let is_refused = is_refused || ran.stderr.contains("talk to the receiver");
            assert!(!is_breach || is_refused, "{words} {name}: {}", ran.stderr);
            let is_in_time = in_time(words, ran.took, Duration::from_secs(20));
            assert!(is_in_time, "{words} {name}: {:?}\n{}", ran.took, ran.stderr);
            assert_inert(&ran, words);
        }
    }
}
