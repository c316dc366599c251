//! A client that pushes and lies: names, numbers, kinds, frames, digests, seals.

use super::*;

#[test]
fn an_offer_whose_name_could_leave_the_root_is_not_even_decoded() {
    let mut world = World::new();
    // One byte more than file systems take, and a good name as long as can be, to see that this is what is refused.
    let (long, below) = ("n".repeat(256), format!("dir/{}/file", "n".repeat(256)));
    let mut client = world.client();
    client.open_push("data", "longest");
    client.line.say_body(&offer_of_raw_path("n".repeat(255).as_bytes()));
    assert!(client.line.hear_some(AT_ONCE, is_want).is_some(), "255 bytes");
    drop(client);
    for raw in [
        &b".."[..],
        b"../planted",
        b"a/../../planted",
        b"/etc/planted",
        b"/",
        b"a//b",
        b"a/",
        b".",
        b"a/./b",
        b"nul\0",
        b"\0",
        b"",
        long.as_bytes(),
        below.as_bytes(),
    ] {
        let mut client = world.client();
        client.open_push("data", "into");
        client.line.say_body(&offer_of_raw_path(raw));
        assert!(client.line.is_ended(AT_ONCE), "{}", thalweg_wire::path::Escaped(raw));
        world.is_unharmed("a name");
    }
    // What decodes, and is no entry.
    let odd: [(&str, Entry); 8] = [
        ("size of 2^63", file(0, "x", 1 << 63)),
        (
            "nanoseconds",
            Entry {
                evidence: Evidence {
                    mtime: thalweg_wire::Time { seconds: 0, nanos: u32::MAX },
                    ..Evidence::default()
                },
                ..file(0, "x", 0)
            },
        ),
        ("mode", Entry { mode: 0o100644, ..file(0, "x", 0) }),
        ("an empty target", symlink(0, "x", "")),
        ("a target with NUL", symlink(0, "x", "a\0b")),
        (
            "a hard link to the root",
            entry(0, "x", Kind::HardLink { first: thalweg_wire::RelativePath::root(), of: EntryId(0) }, 0),
        ),
        ("the root as a file", Entry { path: thalweg_wire::RelativePath::root(), ..file(0, "x", 0) }),
        (
            "an attribute without a name",
            Entry {
                xattrs: vec![thalweg_wire::entry::Xattr { name: vec![], value: vec![] }],
                ..file(0, "x", 0)
            },
        ),
    ];
    for (words, entry) in odd {
        let mut client = world.client();
        client.open_push("data", "into");
        client.line.tell(T::Offer(vec![entry]));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    world.still_serves("after names");
}

/// Its root is the directory above the place, if that is to be its new name.
#[test]
fn who_says_that_one_entry_comes_brings_no_other() {
    let mut world = World::new();
    let first = path("x");
    for (words, entry) in [
        ("a name beside it", file(0, "beside", 5)),
        ("a name below it", file(0, "x/y", 5)),
        ("a directory", directory(0, "x")),
        ("a second name", entry(0, "x", Kind::HardLink { first, of: EntryId(0) }, 0)),
    ] {
        let mut client = world.client();
        let source = SourceForm::Single { name: b"x".to_vec() };
        client.open(asks(Request::Push(Push { source, ..Push::to(place("data", "new")) }))).expect("opened");
        client.line.tell(T::Offer(vec![entry]));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        assert!(!world.export("beside").exists() && !world.export("new").exists(), "{words}");
        world.is_unharmed(words);
    }
    world.still_serves("after more than one entry");
}

#[test]
fn entry_numbers_that_jump_repeat_or_never_end_are_refused() {
    let mut world = World::new();
    for (words, first, second) in [
        ("jumps", file(0, "a", 5), file(1 << 60, "b", 5)),
        ("the last number", file(0, "a", 5), file(u64::MAX, "b", 5)),
        ("again with other content", file(3, "a", 5), file(3, "other", 5)),
        ("a number passed by", file(3, "a", 5), file(1, "b", 5)),
    ] {
        let mut client = world.client();
        client.open_push("data", "into");
        client.line.tell(T::Offer(vec![first]));
        client.line.tell(T::Offer(vec![second]));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
    }
    let mut client = world.client();
    client.open_push("data", "window");
    let mut id = 0;
    let until = Instant::now() + Duration::from_secs(60);
    // Files whose content never comes: more than any sender may have unsettled.
    while id < 2 * limits::ENTRIES_IN_FLIGHT_MAX as u64 && Instant::now() < until {
        let entries = (0..512).map(|more| file(id + more, &format!("f{}", id + more), 5)).collect();
        if !client.line.tell(T::Offer(entries)) {
            break;
        }
        id += 512;
    }
    assert!(client.line.is_ended(Duration::from_secs(30)), "{id} entries offered at once");
    let resident = resident_bytes(world.daemon.pid());
    assert!(resident < 512 << 20, "{resident} bytes resident");
    world.still_serves("after too many entries");
}

#[test]
fn a_file_is_not_written_through_a_link_that_came_before_it() {
    let mut world = World::new();
    let outside = world.scratch.path("outside").display().to_string();
    let (mut client, mut stream) = world.pushing("links");
    for (id, target) in [outside.as_str(), "../../outside", "..", "/"].into_iter().enumerate() {
        let (id, name) = (id as u64 * 10, format!("link{id}"));
        client.line.tell(T::Offer(vec![symlink(id, &name, target)]));
        let made = client.line.outcome_of(id, AT_ONCE);
        assert!(matches!(made, Some(Outcome::Done { .. })), "{made:?}");
        let through = vec![
            file(id + 1, &format!("{name}/planted"), 7),
            directory(id + 2, &format!("{name}/planted-dir")),
            symlink(id + 3, &format!("{name}/planted-link"), "x"),
            file(id + 4, &format!("{name}/canary"), 7),
            entry(id + 5, &format!("{name}/hard"), Kind::HardLink { first: path(&name), of: EntryId(id) }, 0),
        ];
        for entry in through {
            let number = entry.id.0;
            client.line.tell(T::Offer(vec![entry]));
            let outcome = client.line.outcome_of(number, AT_ONCE);
            assert!(matches!(outcome, Some(Outcome::Failed(_))), "{target} {number}: {outcome:?}");
        }
        // A first name that leads there is none to link to: content is wanted instead.
        let kind = Kind::HardLink { first: path(&format!("{name}/canary")), of: EntryId(id) };
        offer_and_hear_want(&mut client, vec![entry(id + 6, &format!("hard-{id}"), kind, 0)]);
        assert!(std::fs::symlink_metadata(world.export(&format!("links/hard-{id}"))).is_err());
        world.is_unharmed(target);
    }
    // A file that becomes a directory's place, and the link that takes a directory's.
    client.line.tell(T::Offer(vec![directory(90, "dir")]));
    assert!(matches!(client.line.outcome_of(90, AT_ONCE), Some(Outcome::Done { .. })));
    client.line.tell(T::Offer(vec![symlink(91, "dir", &outside), file(92, "dir/planted", 7)]));
    stream.segment(92, 0, b"planted", 7);
    let _ = client.line.outcome_of(92, Duration::from_secs(3));
    world.is_unharmed("a directory that became a link");
    drop(client);
    world.still_serves("after links");
}

#[test]
fn devices_and_pipes_that_nobody_asked_for_are_not_made() {
    let mut world = World::new();
    let (mut client, _stream) = world.pushing("devices");
    let kinds = [
        Kind::Device { block: false, major: 1, minor: 3 },
        Kind::Device { block: true, major: 8, minor: 0 },
        Kind::Fifo,
    ];
    for (id, kind) in kinds.into_iter().enumerate() {
        client.line.tell(T::Offer(vec![entry(id as u64, &format!("node{id}"), kind, 0)]));
        let outcome = client.line.outcome_of(id as u64, AT_ONCE);
        assert!(matches!(outcome, Some(Outcome::Failed(_) | Outcome::Skipped(_))), "{outcome:?}");
        assert!(std::fs::symlink_metadata(world.export(&format!("devices/node{id}"))).is_err());
    }
    drop(client);
    world.still_serves("after devices");
}

/// Who may only read may ask what a copy would do. What a killed transfer has staged there is its next
/// attempt's.
#[test]
fn a_dry_run_into_what_may_only_be_read_makes_nothing_and_removes_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let mut world = World::new();
    let readonly = world.scratch.path("readonly");
    let shared = readonly.join(".thalweg-staging");
    let job = shared.join("07".repeat(16));
    std::fs::create_dir_all(job.join("lane-0")).unwrap();
    for name in ["lane-0/1", "made-1", "partial-1", "aside-1", "journal", "lock"] {
        std::fs::write(job.join(name), name).unwrap();
    }
    for dir in [&shared, &job] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let top = || std::fs::metadata(&readonly).unwrap().modified().unwrap();
    let before = (facts(&readonly), top());
    let mut client = world.client();
    let mut open = push("ro", "");
    open.terms.dry_run = true;
    open.terms.check = Check::Digest;
    client.open(open).expect("a dry run");
    let mut stream = client.stream(0);
    // Its digests are asked for, and its content comes.
    offer_and_hear_want(&mut client, vec![file(0, "secret", 9)]);
    stream.segment(0, 0, b"anything!", 9);
    let _ = client.line.outcome_of(0, Duration::from_secs(2));
    let why = Failure::new(FailureKind::NotFound, "read", "gone");
    client.line.tell(T::Withdraw(vec![(EntryId(0), Some(why))]));
    client.line.tell(T::OfferEnd(ScanTotals { entries: 1, bytes: 9, failed: 0, complete: true, empty: 0 }));
    let ended = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Finished(totals)) => Some(totals),
        _ => None,
    });
    assert!(ended.is_some(), "the dry run ends");
    client.line.say(&Message::Goodbye(None));
    drop((client, stream));
    let is_over = || {
        let log = world.scratch.server_log();
        log.contains("transfer done") || log.contains("transfer failed")
    };
    assert!(wait_until(AT_ONCE, is_over), "{}", world.scratch.server_log());
    assert_eq!((facts(&readonly), top()), before);
    let state = std::fs::read_dir(world.scratch.path("server-state")).unwrap();
    let mut state = state.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    assert_eq!(state.find(|name| name.ends_with(".catalogue")), None, "nothing is remembered of a dry run");
    std::fs::remove_dir_all(&shared).unwrap();
    world.still_serves("after a dry run");
}

#[test]
fn a_program_that_would_run_as_the_daemon_s_user_is_left_only_where_that_is_allowed() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.path("export")).unwrap();
    let at = scratch.path("export").display().to_string();
    let whole = format!("whole={at}:setid");
    let flags = ["--export", &whole];
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", Path::new(&at))], &flags, |command| command);
    let us = std::fs::metadata(&at).unwrap();
    for (export, mode, lost) in [("data", 0o755, 1), ("whole", 0o4755, 0)] {
        let mut client = HostileClient::begin(&daemon.ticket, &daemon.address());
        client.open_push(export, export);
        let mut stream = client.stream(0);
        let program = Entry { mode: 0o4755, uid: us.uid(), gid: us.gid(), ..file(0, "program", 5) };
        offer_and_hear_want(&mut client, vec![program]);
        stream.packed(b"five!", PackItem { entry: EntryId(0), bytes: 5, digest: digest_of(b"five!") });
        client.line.tell(T::OfferEnd(ScanTotals {
            entries: 1,
            bytes: 5,
            failed: 0,
            complete: true,
            empty: 0,
        }));
        let outcome = client.line.outcome_of(0, AT_ONCE);
        let Some(Outcome::Done { losses, .. }) = outcome else { panic!("{export}: {outcome:?}") };
        assert!(losses.len() == lost && losses.iter().all(|loss| loss.what == "set-id bits"), "{losses:?}");
        let there = std::fs::metadata(scratch.path("export").join(export).join("program")).unwrap();
        assert_eq!(there.mode() & 0o7777, mode, "{export}");
        client.line.say(&Message::Goodbye(None));
    }
}

#[test]
fn frames_that_fit_no_entry_end_the_session() {
    let mut world = World::new();
    let chunk = CHUNK as usize;
    let bytes = noise(5, 3 * chunk);
    type Case = (&'static str, Box<dyn Fn(&mut Stream) -> bool>);
    let cases: Vec<Case> = vec![
        ("never offered", Box::new(|s| s.send(segment(99, 0, 5, Digest([1; 32])), b"hello"))),
        ("the last number", Box::new(|s| s.send(segment(u64::MAX, 0, 5, Digest([1; 32])), b"hello"))),
        ("beyond the end", Box::new(|s| s.send(segment(0, 3 * CHUNK, 5, Digest([1; 32])), b"hello"))),
        (
            "far beyond the end",
            Box::new(|s| s.send(segment(0, (1 << 62) & !(CHUNK - 1), 5, Digest([1; 32])), b"hello")),
        ),
        ("not where segments begin", Box::new(|s| s.send(segment(0, 17, 5, Digest([1; 32])), b"hello"))),
        ("shorter than the segment", Box::new(|s| s.send(segment(0, 0, 5, Digest([1; 32])), b"hello"))),
        (
            "longer than the segment",
            Box::new(move |s| s.send(segment(0, 0, chunk + 999, Digest([1; 32])), &vec![0; chunk + 999])),
        ),
        ("empty", Box::new(|s| s.send(segment(0, 0, 0, Digest([1; 32])), b""))),
        (
            "zeros beyond the end",
            Box::new(|s| {
                s.send(
                    Inner { kind: FrameKind::Zeros, ..segment(0, 4 << 20, 4 << 20, Digest::default()) },
                    b"",
                )
            }),
        ),
        (
            "zeros of no segment",
            Box::new(|s| {
                s.send(Inner { kind: FrameKind::Zeros, ..segment(0, 1, 7, Digest::default()) }, b"")
            }),
        ),
        (
            "a pack that does not add up",
            Box::new(|s| {
                s.packed(b"five!", PackItem { entry: EntryId(1), bytes: 500, digest: digest_of(b"five!") })
            }),
        ),
        ("a pack of more files than it has", Box::new(|s| s.pack(4096, b"five!"))),
        ("a pack with bytes of nobody", Box::new(|s| s.pack(0, b"five!"))),
        (
            "a packed file of another size",
            Box::new(|s| {
                s.packed(b"five", PackItem { entry: EntryId(1), bytes: 4, digest: digest_of(b"five") })
            }),
        ),
        (
            "a bomb",
            Box::new(move |s| {
                let bomb = zstd_bomb(8 << 20);
                s.send(Inner { encoding: Encoding::Zstd, ..segment(0, 0, chunk, Digest([1; 32])) }, &bomb)
            }),
        ),
        (
            "no zstd",
            Box::new(move |s| {
                s.send(Inner { encoding: Encoding::Zstd, ..segment(0, 0, chunk, Digest([1; 32])) }, b"none")
            }),
        ),
    ];
    for (words, lie) in cases {
        let (mut client, mut stream) = world.pushing("frames");
        offer_and_hear_want(&mut client, vec![file(0, "large", 3 * CHUNK), file(1, "small", 5)]);
        lie(&mut stream);
        assert!(client.line.is_ended(AT_ONCE), "{words}");
        world.is_unharmed(words);
        assert!(!world.export("frames/large").exists(), "{words}");
        assert!(!world.export("frames/small").exists(), "{words}");
    }
    // A frame of a transfer that is not there is dropped, and one too long costs the stream; the session goes on.
    let (mut client, mut stream) = world.pushing("frames");
    offer_and_hear_want(&mut client, vec![file(0, "large", 3 * CHUNK)]);
    for number in [0, 2, u16::MAX] {
        stream
            .send(Inner { transfer: TransferNumber(number), ..segment(0, 0, 5, Digest([1; 32])) }, b"hello");
    }
    stream.send(segment(0, 0, 1 << 20, Digest([1; 32])), &vec![0; 1 << 20]);
    assert!(
        wait_until(AT_ONCE, || !stream.send(segment(0, 0, 5, Digest([1; 32])), b"hello")),
        "the stream goes on\n{}",
        world.scratch.server_log()
    );
    let mut stream = client.stream(1);
    for at in 0..3 {
        let range = at * chunk..(at + 1) * chunk;
        stream.segment(0, range.start as u64, &bytes[range], 3 * CHUNK);
    }
    let sealed = file(0, "large", 3 * CHUNK).evidence;
    client
        .line
        .tell(T::Seal(vec![(EntryId(0), Seal { evidence: sealed, digest: digest_of(&bytes), asked: 0 })]));
    let outcome = client.line.outcome_of(0, AT_ONCE);
    assert!(matches!(outcome, Some(Outcome::Done { .. })), "{outcome:?}");
    drop(client);
    world.still_serves("after frames");
}

fn is_want(message: Message) -> Option<()> {
    matches!(message, Message::Transfer(_, T::Want(_))).then_some(())
}

/// One zstd frame that says so many zeros, in RLE blocks.
fn zstd_bomb(bytes: u32) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend_from_slice(&bytes.to_le_bytes());
    let blocks = bytes.div_ceil(128 << 10);
    for block in 1..=blocks {
        out.extend_from_slice(&rle_block(128 << 10, block == blocks));
    }
    out
}

fn rle_block(bytes: u32, is_last: bool) -> [u8; 4] {
    let head = (bytes << 3 | 1 << 1 | u32::from(is_last)).to_le_bytes();
    [head[0], head[1], head[2], 0]
}

#[test]
fn streams_that_break_again_and_again_leave_neither_threads_nor_sockets() {
    let mut world = World::new();
    let mut client = world.client();
    client.open_push("data", "broken");
    let count =
        |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", world.daemon.pid())).unwrap().count();
    let before = (count("task"), count("fd"));
    for _ in 0..60 {
        // Too long for any buffer there.
        client.stream(0).send(segment(0, 0, 1 << 20, Digest([1; 32])), &vec![0; 1 << 20]);
    }
    let is_back = wait_until(AT_ONCE, || count("task") <= before.0 + 10 && count("fd") <= before.1 + 10);
    assert!(is_back, "{} threads and {} descriptors, {before:?} before", count("task"), count("fd"));
    drop(client);
    world.still_serves("after broken streams");
}

#[test]
fn content_that_never_matches_its_digest_is_asked_for_a_bounded_number_of_times() {
    let mut world = World::new();
    for (name, size) in [("small", 5u64), ("large", 2 * CHUNK)] {
        let (mut client, mut stream) = world.pushing("damage");
        offer_and_hear_want(&mut client, vec![file(0, name, size)]);
        let lie = |stream: &mut Stream| {
            if size == 5 {
                stream.packed(b"hello", PackItem { entry: EntryId(0), bytes: 5, digest: Digest([3; 32]) })
            } else {
                stream.send(segment(0, 0, CHUNK as usize, Digest([3; 32])), &vec![7; CHUNK as usize])
            }
        };
        lie(&mut stream);
        let mut repairs = 0;
        let outcome = client.line.hear_some(Duration::from_secs(30), |message| match message {
            Message::Transfer(_, T::Repair(_)) => {
                repairs += 1;
                lie(&mut stream);
                (repairs > 1000).then_some(None)
            }
            Message::Transfer(_, T::Settled(items)) => Some(Some(items[0].1.clone())),
            Message::Goodbye(why) => panic!("{why:?}"),
            _ => None,
        });
        match outcome {
            Some(Some(Outcome::Failed(failure))) => assert_eq!(failure.kind, FailureKind::Damage),
            other => panic!("{name}: {repairs} repairs, then {other:?}"),
        }
        assert!(repairs <= 200, "{repairs} repairs");
        assert!(!world.export(&format!("damage/{name}")).exists());
    }
    world.still_serves("after damage");
}

#[test]
fn a_seal_for_other_content_never_gives_a_name_to_it() {
    let mut world = World::new();
    let bytes = noise(6, 2 * CHUNK as usize);
    for (words, digest, inode) in [("digest", Digest([4; 32]), 1000), ("evidence", digest_of(&bytes), 5)] {
        let (mut client, mut stream) = world.pushing("seals");
        offer_and_hear_want(&mut client, vec![file(0, words, 2 * CHUNK)]);
        for (at, piece) in bytes.chunks(CHUNK as usize).enumerate() {
            stream.segment(0, at as u64 * CHUNK, piece, 2 * CHUNK);
        }
        let evidence = Evidence { inode, ..file(0, words, 2 * CHUNK).evidence };
        client.line.tell(T::Seal(vec![(EntryId(0), Seal { evidence, digest, asked: 0 })]));
        let outcome = client.line.outcome_of(0, AT_ONCE);
        assert!(matches!(outcome, None | Some(Outcome::Failed(_))), "{words}: {outcome:?}");
        assert!(!world.export(&format!("seals/{words}")).exists(), "{words}");
        world.is_unharmed(words);
    }
    let (mut client, _stream) = world.pushing("seals");
    client.line.tell(T::Seal(vec![(
        EntryId(7),
        Seal { evidence: Evidence::default(), digest: Digest::default(), asked: 0 },
    )]));
    assert!(client.line.is_ended(AT_ONCE), "a seal of nothing");
    // Holes where there can be none, and so many that they do not fit into a number.
    let huge = limits::FILE_BYTES_MAX;
    let marked = |id| entry(id, &format!("huge{id}"), Kind::File { sparse: true, marked: true }, huge);
    for (words, runs) in [
        ("beyond the end", vec![(EntryId(0), Run { first: 0, count: 3 })]),
        ("far beyond the end", vec![(EntryId(0), Run { first: u64::MAX / 2, count: u64::MAX / 2 })]),
        ("empty", vec![(EntryId(0), Run { first: 0, count: 0 })]),
        ("never offered", vec![(EntryId(9), Run { first: 0, count: 1 })]),
    ] {
        let (mut client, _stream) = world.pushing("holes");
        offer_and_hear_want(&mut client, vec![file(0, "plain", 2 * CHUNK)]);
        client.line.tell(T::Holes(runs));
        assert!(client.line.is_ended(AT_ONCE), "{words}");
    }
    let (mut client, _stream) = world.pushing("holes");
    client.line.tell(T::Offer((0..4).map(marked).collect()));
    for id in 0..4 {
        client.line.tell(T::Holes(vec![(EntryId(id), Run { first: 0, count: huge / CHUNK })]));
    }
    let _ = client.line.is_ended(Duration::from_secs(3));
    drop(client);
    world.still_serves("after seals");
}

/// A frame of zstd that says nothing of its size and asks for a window of 2 GiB. What it gives is right, so it may be
/// taken; no memory is.
#[test]
fn a_compressed_frame_that_asks_for_a_window_of_two_gibibytes_gets_no_memory_for_it() {
    let mut world = World::new();
    // Header without content size; window descriptor: exponent 21 (2^31), mantissa 0. Then one block of zeros.
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3][..], &rle_block(65536, true)].concat();
    let before = resident_bytes(world.daemon.pid());
    for _ in 0..8 {
        let (mut client, mut stream) = world.pushing("windows");
        offer_and_hear_want(&mut client, vec![file(0, "x", 2 * CHUNK)]);
        let digest = thalweg_wire::digest::of_piece(0, &[0; CHUNK as usize], 2 * CHUNK);
        let inner = segment(0, 0, CHUNK as usize, digest);
        stream.send(Inner { encoding: Encoding::Zstd, ..inner }, &frame);
        let answered = client.line.hear_some(AT_ONCE, |message| {
            matches!(message, Message::Transfer(_, T::Ack(..) | T::Repair(_)) | Message::Goodbye(_))
                .then_some(())
        });
        assert!(answered.is_some(), "no word on it");
        world.is_unharmed("a window");
    }
    let grown = resident_bytes(world.daemon.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for windows");
    world.still_serves("after windows");
}

/// Offered again under the same number, equal to the byte, a hundred times: the same answer, and one file at the end.
#[test]
fn an_offer_that_is_repeated_changes_nothing() {
    let mut world = World::new();
    let (mut client, mut stream) = world.pushing("again");
    let entry = file(0, "small", 5);
    for _ in 0..100 {
        offer_and_hear_want(&mut client, vec![entry.clone()]);
    }
    stream.packed(b"five!", PackItem { entry: EntryId(0), bytes: 5, digest: digest_of(b"five!") });
    assert!(matches!(client.line.outcome_of(0, AT_ONCE), Some(Outcome::Done { .. })));
    for _ in 0..100 {
        client.line.tell(T::Offer(vec![entry.clone()]));
        assert!(matches!(client.line.outcome_of(0, AT_ONCE), Some(Outcome::Done { .. })));
    }
    assert_eq!(std::fs::read(world.export("again/small")).unwrap(), b"five!");
    // The same number for something else is a breach.
    client.line.tell(T::Offer(vec![file(0, "other", 5)]));
    client.line.tell(T::Offer(vec![file(0, "small", 6)]));
    let _ = client.line.is_ended(Duration::from_secs(2));
    assert!(!world.export("again/other").exists());
    world.still_serves("after repeated offers");
}

/// What was told as settled is kept until the sender has heard it. One that never says so does not fill the memory.
#[test]
fn a_sender_that_never_says_what_it_heard_is_cut() {
    let mut world = World::new();
    let (mut client, _stream) = world.pushing("unheard");
    let before = resident_bytes(world.daemon.pid());
    let (step, most) = (1024, 4 * limits::ENTRIES_UNHEARD_MAX as u64);
    let mut next = 0;
    let mut cut = false;
    while !cut && next < most {
        let names = (next..next + step)
            .map(|id| (EntryId(id), path(&format!("n{id}")), Outcome::Skipped("a socket".to_owned())));
        next += step;
        let settled = client.line.tell(T::Aside(names.collect()))
            && client.line.outcome_of(next - 1, AT_ONCE).is_some();
        cut = !settled;
    }
    let grown = resident_bytes(world.daemon.pid()).saturating_sub(before);
    println!("cut after {next} names, {} MiB grown", grown >> 20);
    assert!(cut, "{next} names and no end");
    assert!(grown < 256 << 20, "{grown} bytes");
    drop(client);
    world.still_serves("after what was never heard");
}

/// Opens a push that is kept nowhere, to an export that nobody may write.
#[track_caller]
fn open_trial(client: &mut HostileClient) {
    client.open(push_trial("ro", "x", PushTrial::Null)).expect("a trial");
}

/// A line of the receipt waits for the others of its block, which never come.
#[test]
fn names_aside_of_which_each_is_alone_in_its_block_of_the_receipt_are_refused_in_time() {
    let mut world = World::new();
    let mut client = world.client();
    open_trial(&mut client);
    let id = |at: u64| EntryId(512 * at);
    let outcome = || Outcome::Failed(Failure::new(FailureKind::Io, "read", "no"));
    let (step, most) = (8000, 2_000_000);
    let mut next = 0;
    let mut cut = false;
    while !cut && next < most {
        let names = (next..next + step).map(|at| (id(at), path("a"), outcome())).collect();
        next += step;
        let last = id(next - 1).0;
        // Nothing of it is remembered for us.
        let settled = client.line.tell(T::Aside(names))
            && client.line.outcome_of(last, AT_ONCE).is_some()
            && client.line.tell(T::Heard(vec![Run { first: 0, count: last + 1 }]));
        cut = !settled;
    }
    let resident = resident_bytes(world.daemon.pid());
    println!("cut after {next} names, {} MiB resident", resident >> 20);
    assert!(cut, "{next} names and no end");
    assert!(resident < 512 << 20, "{resident} bytes");
    drop(client);
    world.still_serves("after names aside");
}

#[test]
fn holes_between_which_nothing_ever_comes_are_refused_in_time() {
    let mut world = World::new();
    let mut client = world.client();
    open_trial(&mut client);
    let kind = Kind::File { sparse: true, marked: true };
    offer_and_hear_want(&mut client, vec![entry(0, "huge", kind, limits::FILE_BYTES_MAX)]);
    let (step, most) = (8000, 4 * limits::HOLE_RUNS_MAX as u64);
    let mut next = 0;
    while next < most {
        // Of such a length that no tree would have it as one.
        let run = |at: u64| (EntryId(0), Run { first: (at << 21) + 1, count: (1 << 21) - 3 });
        if !client.line.tell(T::Holes((next..next + step).map(run).collect())) {
            break;
        }
        next += step;
    }
    assert!(client.line.is_ended(AT_ONCE), "{next} holes and no end");
    let resident = resident_bytes(world.daemon.pid());
    assert!(resident < 256 << 20, "{resident} bytes after {next} holes");
    drop(client);
    world.still_serves("after holes");
}
