//! Servers that are pulled from and send what was not asked for, or words that a terminal would act on.

use super::*;

#[test]
fn a_pull_writes_only_what_it_asked_for() {
    let single = |name: &str| SourceForm::Single { name: name.as_bytes().to_vec() };
    type Case = (&'static str, SourceForm, Vec<Entry>);
    let cases: Vec<Case> = vec![
        ("one file under another name", single("planted"), vec![file(0, "planted", 7)]),
        ("the file and one more", single("x"), vec![file(0, "x", 7), file(1, "planted", 7)]),
        (
            "a file beside the directory",
            SourceForm::Many,
            vec![directory(0, "x"), file(1, "x/a", 7), file(2, "planted", 7)],
        ),
        ("another directory", SourceForm::Many, vec![directory(0, "planted"), file(1, "planted/a", 7)]),
        ("a link beside the file", single("x"), vec![symlink(0, "planted", "/"), file(1, "x", 7)]),
        (
            "the destination itself",
            SourceForm::Many,
            vec![Entry { mode: 0o777, path: thalweg_wire::RelativePath::root(), ..directory(0, "x") }],
        ),
    ];
    for (words, form, entries) in cases {
        for to in ["into/", "into/new-name"] {
            let scratch = Scratch::new();
            std::fs::create_dir(scratch.path("into")).unwrap();
            std::fs::set_permissions(
                scratch.path("into"),
                std::os::unix::fs::PermissionsExt::from_mode(0o700),
            )
            .unwrap();
            let ran =
                pull_from(&scratch, to, form.clone(), |server, line| send_files(server, line, &entries));
            assert_ne!(ran.code, Some(0), "{words} {to}: {}", ran.stderr);
            let names: Vec<String> = facts(&scratch.path("into"))
                .into_keys()
                .map(|name| String::from_utf8_lossy(&name).into_owned())
                .collect();
            let below_new_name = |name: &String| to == "into/new-name" && name.starts_with("new-name");
            let planted = names
                .iter()
                .any(|name| name.contains("planted") && !name.contains(".thalweg") && !below_new_name(name));
            assert!(!planted, "{words} {to}: {names:?}\n{}", ran.stderr);
            assert!(!names.iter().any(|name| name == "new-name/planted"), "{words} {to}: {names:?}");
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(scratch.path("into")).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{words} {to}: the destination's own mode");
        }
    }
}

#[test]
fn a_server_that_sends_names_links_and_devices_of_its_own_writes_nothing_outside() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("outside")).unwrap();
    std::fs::write(scratch.path("outside/canary"), b"outside").unwrap();
    let before = facts(&scratch.path("outside"));
    let outside = scratch.path("outside").display().to_string();
    let many = || SourceForm::Many;
    let absolute = scratch.path("planted").display().to_string();
    let names = ["../planted", &absolute, "x/../../planted", "x//y", "x\0"];
    // Neither needs content: nothing but its name keeps it from being made.
    let made = [("file", file(0, PLACEHOLDER, 0)), ("directory", directory(0, PLACEHOLDER))];
    for (at, name) in names.into_iter().enumerate() {
        for (kind, entry) in &made {
            let to = format!("names-{at}-{kind}");
            let ran = pull_from(&scratch, &to, many(), |_, line| {
                line.say_body(&with_raw_path(T::Offer(vec![entry.clone()]), name.as_bytes()));
                line.tell(T::OfferEnd(ScanTotals {
                    entries: 1,
                    bytes: 0,
                    failed: 0,
                    complete: true,
                    empty: 0,
                }));
                assert!(line.is_ended(AT_ONCE), "{kind} {name:?}");
            });
            assert!(matches!(ran.code, Some(2 | 3)), "{kind} {name:?}: {}", ran.stderr);
            for planted in ["planted", &format!("{to}/x")] {
                let found = std::fs::symlink_metadata(scratch.path(planted));
                assert!(found.is_err(), "{kind} {name:?}: {planted}");
            }
        }
    }
    let ran = pull_from(&scratch, "links", many(), |server, line| {
        let entries = [
            directory(0, "x"),
            symlink(1, "x/link", &outside),
            symlink(2, "x/up", "../../outside"),
            file(3, "x/link/planted", 7),
            file(4, "x/up/planted", 7),
            file(5, "x/link/canary", 7),
            entry(6, "x/null", Kind::Device { block: false, major: 1, minor: 3 }, 0),
            entry(7, "x/fifo", Kind::Fifo, 0),
        ];
        send_files(server, line, &entries);
    });
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(facts(&scratch.path("outside")), before);
    for name in ["links/x/null", "links/x/fifo"] {
        assert!(std::fs::symlink_metadata(scratch.path(name)).is_err(), "{name}");
    }
}

/// A pull of `x` to `to`, from a server that says this.
fn pull_from(
    scratch: &Scratch,
    to: &str,
    form: SourceForm,
    lie: impl FnOnce(&HostileServer, &mut Line),
) -> Ran {
    pull_with(scratch, &[], to, form, lie)
}

/// The same with more options.
fn pull_with(
    scratch: &Scratch,
    more: &[&str],
    to: &str,
    form: SourceForm,
    lie: impl FnOnce(&HostileServer, &mut Line),
) -> Ran {
    let server = HostileServer::new(scratch, "bad-ticket");
    let job = cp(scratch, &server, &[server.place("x"), scratch.path(to).display().to_string()]);
    let job = Running::start(with(job, more));
    let mut line = server.session().expect("the client comes");
    agree(&mut line, form).expect("an open");
    lie(&server, &mut line);
    drop(line);
    drop(server);
    job.end(Duration::from_secs(60))
}

/// Sends these files, each with content, and settles whatever way the client goes.
fn send_files(server: &HostileServer, line: &mut Line, entries: &[Entry]) {
    line.tell(T::Offer(entries.to_vec()));
    line.tell(T::OfferEnd(ScanTotals {
        entries: entries.len() as u64,
        bytes: 0,
        failed: 0,
        complete: true,
        empty: 0,
    }));
    let Some(mut stream) = server.stream(Duration::from_secs(3)) else { return };
    let mut payload = Vec::new();
    let mut index = Vec::new();
    for entry in entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })) {
        let content = vec![b'!'; entry.evidence.size as usize];
        index.extend_from_slice(
            &PackItem { entry: entry.id, bytes: content.len() as u32, digest: digest_of(&content) }.encode(),
        );
        payload.extend_from_slice(&content);
    }
    let files = (index.len() / 48) as u64;
    payload.extend_from_slice(&index);
    std::thread::sleep(Duration::from_millis(300));
    stream.pack(files, &payload);
    // It says why not, or cuts a link on which nothing comes any more.
    line.is_ended(AT_ONCE);
}

#[test]
fn what_a_peer_says_in_words_is_inert_in_every_output() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"five!").unwrap();
    let evil = "\u{1b}]0;x\u{7}\u{9b}31m\u{7f}\r\u{202e}".to_owned();
    let outcomes = [
        Outcome::Done { digest: None, losses: vec![Loss { what: evil.clone(), why: evil.clone() }] },
        Outcome::Skipped(evil.clone()),
        Outcome::Failed(Failure::new(FailureKind::Permission, &evil, &evil)),
    ];
    for flags in [vec!["-vv"], vec!["--json"], vec!["-v", "-P"]] {
        for outcome in &outcomes {
            let server = HostileServer::new(&scratch, "bad-ticket");
            let mut job =
                cp(&scratch, &server, &[scratch.path("file").display().to_string(), server.place("x")]);
            job.args(&flags);
            let job = Running::start(job);
            let mut line = server.session().expect("the client comes");
            agree(&mut line, SourceForm::Many).expect("an open");
            line.hear_some(SOON, |message| {
                matches!(message, Message::Transfer(_, T::Offer(_))).then_some(())
            });
            line.tell(T::Settled(vec![(EntryId(0), outcome.clone())]));
            line.tell(T::Troubles(vec![(path("n\u{1b}ame\u{9b}"), outcome.clone())]));
            line.tell(T::Abort(Failure::new(FailureKind::Io, &evil, &evil)));
            line.is_ended(Duration::from_secs(2));
            drop((line, server));
            assert_inert(&job.end(Duration::from_secs(60)), &format!("{flags:?} {outcome:?}"));
        }
    }
    // Refused at the door.
    let server = HostileServer::new(&scratch, "bad-ticket");
    let job = Running::start(cp(
        &scratch,
        &server,
        &[scratch.path("file").display().to_string(), server.place("x")],
    ));
    let mut line = server.session().expect("the client comes");
    let open = line.hear_some(SOON, |message| match message {
        Message::Open(open) => Some(open),
        _ => None,
    });
    let refused = Opened::Refused(Failure::new(FailureKind::NotFound, &evil, &evil));
    line.say(&Message::Opened(open.unwrap().transfer, refused));
    let ran = job.end(Duration::from_secs(60));
    assert_eq!(ran.code, Some(3));
    assert_inert(&ran, "refused");
    // It is told, and not left out: what is inert of it is there.
    assert!(ran.stderr.contains("31m"), "{}", ran.stderr);
}

/// Each would be kept, up to two megabytes of it, for somebody who never asks.
#[test]
fn a_server_that_opens_what_nobody_asked_for_ends_its_session() {
    let opened = |number| {
        let source = SourceForm::Single { name: vec![b'n'; limits::NAME_BYTES_MAX] };
        Message::Opened(TransferNumber(number), Opened::Pull { source, is_ephemeral: false })
    };
    for (words, number) in [("another transfer", 77), ("the same again", 1)] {
        let scratch = Scratch::new();
        let server = HostileServer::new(&scratch, "bad-ticket");
        let places = [server.place("x"), scratch.path("to").display().to_string()];
        let job = Running::start(patient_cp(&scratch, &server, &places));
        let mut line = server.session().expect("the client comes");
        agree(&mut line, SourceForm::Many).expect("an open");
        line.say(&opened(number));
        let why = line.hear_some(AT_ONCE, |message| match message {
            Message::Goodbye(why) => Some(why),
            _ => None,
        });
        let why = why.flatten().unwrap_or_else(|| panic!("{words}: no goodbye with a reason"));
        assert_eq!(why.kind, FailureKind::Protocol, "{words}: {why}");
        // It would begin anew, as long as its patience lasts.
        drop(job);
    }
}

#[test]
fn a_server_that_opens_another_kind_of_transfer_than_was_asked_for_is_not_believed() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"five!").unwrap();
    let answers = [
        Opened::Push { is_ephemeral: false },
        Opened::Pull { source: SourceForm::Many, is_ephemeral: false },
        Opened::FlowPush { is_ephemeral: false, window_bytes: 1 << 20 },
        Opened::FlowPull { source: SourceForm::Many, is_ephemeral: false, window_bytes: 1 << 20 },
        Opened::Produce { channel: ChannelTerms::default(), before: None },
        Opened::Consume { instance: 1, channel: ChannelTerms::default() },
    ];
    for command in ["cp", "stream"] {
        for pulls in [false, true] {
            for answer in &answers {
                let is_asked = match answer {
                    Opened::Push { .. } => (command, pulls) == ("cp", false),
                    Opened::Pull { .. } => (command, pulls) == ("cp", true),
                    Opened::FlowPush { .. } => (command, pulls) == ("stream", false),
                    Opened::FlowPull { .. } => (command, pulls) == ("stream", true),
                    _ => false,
                };
                if is_asked {
                    continue;
                }
                let words = format!("{command} {pulls} {answer:?}");
                let server = HostileServer::new(&scratch, "bad-ticket");
                let (here, there) = (scratch.path("file").display().to_string(), server.place("x"));
                let to = scratch.path("to").display().to_string();
                let places = if pulls { [there, to] } else { [here, there] };
                let job = with(scratch.thalweg(), [command, "--stall-timeout", "20s", "--patience", "40s"]);
                let job = Running::start(with(with(with(job, ["--ticket"]), [&server.ticket]), places));
                let mut line = server.session().expect("the client comes");
                let open = line.hear_some(SOON, |message| match message {
                    Message::Open(open) => Some(open),
                    _ => None,
                });
                line.say(&Message::Opened(open.expect("an open").transfer, answer.clone()));
                let why = line.hear_some(AT_ONCE, |message| match message {
                    Message::Goodbye(why) => Some(why),
                    _ => None,
                });
                let why = why.flatten().unwrap_or_else(|| panic!("{words}: no goodbye with a reason"));
                assert_eq!(why.kind, FailureKind::Protocol, "{words}: {why}");
                // It would begin anew, as long as its patience lasts.
                drop(job);
                assert!(!scratch.path("to").exists(), "{words}: something was made");
            }
        }
    }
}

/// The filter of a pull holds here too.
#[test]
fn a_pull_does_not_write_what_its_filter_leaves_out() {
    for (words, entries) in [
        ("an excluded file", vec![directory(0, "x"), file(1, "x/planted.o", 7)]),
        ("a file of an excluded directory", vec![directory(0, "x"), file(1, "x/out/planted", 7)]),
        ("an excluded directory", vec![directory(0, "x"), directory(1, "x/out")]),
    ] {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("into")).unwrap();
        let filter = ["--exclude", "*.o", "--exclude", "out/"];
        let ran = pull_with(&scratch, &filter, "into/", SourceForm::Many, |server, line| {
            send_files(server, line, &entries);
        });
        assert_ne!(ran.code, Some(0), "{words}: {}", ran.stderr);
        assert!(ran.stderr.contains("the filter leaves out"), "{words}: {}", ran.stderr);
        let names: Vec<String> = facts(&scratch.path("into"))
            .into_keys()
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect();
        let is_planted = |name: &String| name.ends_with("out") || name.contains("planted");
        assert!(
            !names.iter().any(|name| is_planted(name) && !name.contains(".thalweg")),
            "{words}: {names:?}"
        );
    }
}
