//! Frames that pass: many producers, many consumers, groups, sets, files, a hub inside a process.

use crate::support::job::{Running, signal, with};
use crate::support::{Scratch, finish, noise, wait_until};
use crate::{
    LIMIT, by, command, drain, frame, how, os, push_all, receiver, sender, small, stand, status, take_all,
    take_frames, told,
};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use thalweg_client::frames::files::FrameFiles;
use thalweg_client::frames::{
    ChannelWishes, Delivery, Frame, FrameFrom, FramePolicy, Hub, HubWishes, NewFrame, Receiver,
    ReceiverWishes, Sender, SenderWishes,
};
use thalweg_mover::failure::FailureKind;
use thalweg_mover::run::frames::wall_ns;
use thalweg_wire::Digest;

#[test]
fn a_file_goes_out_as_frames_and_comes_back_in_files_the_same() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "scan");
    let content = noise(1, 2_345_678);
    std::fs::write(scratch.path("in"), &content).unwrap();
    let got = scratch.path("got");
    let pull = Running::start(with(
        command(&scratch, "pull"),
        [place.as_str(), got.to_str().unwrap(), "--every", "10", "--json"],
    ));
    let push = with(
        command(&scratch, "push"),
        [
            scratch.path("in").to_str().unwrap(),
            &place,
            "--frame-bytes",
            "100000",
            "--dtype",
            "<u2",
            "--shape",
            "250,200",
            "--set",
            "4",
            "--producer",
            "cam",
            "--deadline",
            "100s",
            "--json",
        ],
    );
    // It ends in the middle of a frame, which is sent all the same.
    let pushed = Running::start(push).end(LIMIT).expect(2);
    assert_eq!(pushed.number("frames"), 24);
    let torn = serde_json::json!([{"source": scratch.path("in"), "sequence": 23, "bytes": 45_678}]);
    assert_eq!(pushed.finished()["torn"], torn);
    let word = "ended in the middle of frame 23: it was sent with 45678 bytes of 100000";
    assert!(pushed.stderr.contains(word), "{}", pushed.stderr);
    let pulled = pull.end(LIMIT).expect(0);
    let finished = pulled.finished();
    assert_eq!((pulled.number("frames"), pulled.number("files")), (24, 3));
    assert_eq!(finished["sets_complete"], 1);
    assert_eq!((&finished["late"], &finished["with_deadline"]), (&0.into(), &24.into()));
    let clock = &finished["clock"];
    assert!(
        clock["bound_s"].as_f64().unwrap() < 5.0 && clock["offset_s"].as_f64().unwrap().abs() < 5.0,
        "{clock}"
    );
    let tail = &finished["latency"];
    assert!(tail["p50_s"].as_f64().unwrap() <= tail["max_s"].as_f64().unwrap(), "{tail}");
    let mut together = Vec::new();
    for number in 0..3 {
        together.extend(std::fs::read(got.join(format!("frames-00000{number}.raw"))).unwrap());
    }
    assert!(together == content);
    // Nothing but whole files.
    let names: BTreeSet<_> =
        std::fs::read_dir(&got).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    let index = std::fs::read_to_string(got.join("frames-000000.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(index.lines().next().unwrap()).unwrap();
    assert_eq!(first["shape"], serde_json::json!([250, 200]));
    assert_eq!(first["digest"], blake3::hash(&content[..100_000]).to_string());
    // And out of those files again, as they were.
    let again = daemon.place("data", "again");
    let mut pull = with(command(&scratch, "pull"), [again.as_str(), "-", "-q", "--from", "start"]);
    let pull = pull.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let mut push = command(&scratch, "push");
    for number in 0..3 {
        push.arg(got.join(format!("frames-00000{number}.jsonl")));
    }
    Running::start(with(push, [again.as_str(), "--index", "-q"])).end(LIMIT).expect(0);
    let out = finish(pull);
    assert!(out.status.success() && out.stdout == content);
}

#[test]
fn frames_of_an_index_keep_the_times_at_which_they_were_made_unless_they_are_pushed_at_a_rate() {
    let (scratch, daemon) = stand();
    std::fs::write(scratch.path("in"), noise(1, 5000)).unwrap();
    let passes = |channel: &str, from: &Path, options: &[&str]| -> (PathBuf, Vec<u64>) {
        let (place, got) = (daemon.place("data", channel), scratch.path(channel));
        let pull = with(command(&scratch, "pull"), [place.as_str(), got.to_str().unwrap(), "-q"]);
        let pull = Running::start(pull);
        let push = with(command(&scratch, "push"), [from.to_str().unwrap(), place.as_str(), "-q"]);
        Running::start(with(push, options)).end(LIMIT).expect(0);
        pull.end(LIMIT).expect(0);
        let index = got.join("frames-000000.jsonl");
        let lines = std::fs::read_to_string(&index).unwrap();
        let time = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["time_ns"].as_u64();
        (index, lines.lines().filter_map(time).collect())
    };
    let (index, made) = passes("first", &scratch.path("in"), &["--frame-bytes", "1000"]);
    assert_eq!(made.len(), 5);
    assert_eq!(passes("again", &index, &["--index"]).1, made);
    let paced = passes("paced", &index, &["--index", "--frames-per-s", "1000"]).1;
    assert!(paced.len() == 5 && paced.iter().all(|time| *time > made[4]), "{paced:?} after {made:?}");
}

#[test]
fn a_push_that_goes_on_leaves_out_what_the_hub_has_of_its_files() {
    let (scratch, daemon) = stand();
    let content = noise(1, 4800);
    let (first, second) = (scratch.path("first"), scratch.path("second"));
    std::fs::write(&first, &content[..2500]).unwrap();
    std::fs::write(&second, &content[2500..]).unwrap();
    // Of six frames, in two files that both end in the middle of one, or of five that an index names, the hub has so
    // many.
    for (frames, index) in [(1, false), (3, false), (4, false), (2, true)] {
        let place = daemon.place("data", &format!("x{frames}"));
        let taker = receiver(&scratch, &place, by(FramePolicy::Block));
        let maker = sender(&scratch, &place, "cam", SenderWishes::default());
        for (sequence, bytes) in (0..frames).zip([1000, 1000, 500, 1000]) {
            maker.push(frame("cam", sequence, bytes), Some(LIMIT)).unwrap();
        }
        maker.finish(Some(LIMIT)).unwrap();
        let push = with(command(&scratch, "push"), ["--producer", "cam", "--json", "--resume"]);
        let push = match index {
            false => with(with(push, ["--frame-bytes", "1000"]), [&first, &second]),
            true => with(with(push, ["--index"]), [&indexed(&scratch)]),
        };
        let pushed = Running::start(with(push, [place.as_str()])).end(LIMIT);
        let all = if index { 5 } else { 6 };
        assert_eq!(pushed.number("next_sequence"), all, "{}", pushed.stdout);
        assert_eq!(pushed.number("frames"), all - frames);
        drop(taker);
    }
    let pipe = ["-", "tw://localhost/data/x", "--frame-bytes", "1000", "--producer", "cam", "--resume"];
    let refused = Running::start(with(command(&scratch, "push"), pipe)).end(LIMIT).expect(1);
    assert!(refused.stderr.contains("--resume"), "{}", refused.stderr);
}

#[test]
fn frames_go_through_the_pipe_of_another_program_as_they_are_and_it_says_of_sets_what_it_knows() {
    let (scratch, daemon) = stand();
    let content = noise(1, 5000);
    let (input, got) = (scratch.path("in"), scratch.path("got"));
    std::fs::write(&input, &content).unwrap();
    let (first, second) = (daemon.place("data", "first"), daemon.place("data", "second"));
    let mut pull = with(command(&scratch, "pull"), [first.as_str(), "-", "--framed", "-q"]);
    let pull = pull.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let push = [input.to_str().unwrap(), first.as_str(), "--frame-bytes", "1000", "--set", "4", "-q"];
    let shape = ["--dtype", "<u2", "--shape", "500"];
    Running::start(with(with(command(&scratch, "push"), push), shape)).end(LIMIT).expect(0);
    let out = finish(pull);
    assert!(out.status.success() && out.stdout.len() > content.len());
    let mut framed = b"{\"declare_set\": {\"set\": 4, \"frames\": 7}}\n".to_vec();
    framed.extend_from_slice(&out.stdout);
    framed.extend_from_slice(b"{\"end_set\": 4}\n");
    let pull = with(command(&scratch, "pull"), [second.as_str(), got.to_str().unwrap(), "--json"]);
    let pull = Running::start(pull);
    let push = with(command(&scratch, "push"), ["-", second.as_str(), "--framed", "-q"]);
    let (push, mut stdin) = Running::fed(push);
    stdin.write_all(&framed).unwrap();
    drop(stdin);
    push.end(LIMIT).expect(0);
    let pulled = pull.end(LIMIT).expect(2);
    let set = told(&pulled, "set");
    assert_eq!((&set["frames"], &set["delivered"]), (&7.into(), &5.into()), "{set}");
    assert!(std::fs::read(got.join("frames-000000.raw")).unwrap() == content);
    let index = std::fs::read_to_string(got.join("frames-000000.jsonl")).unwrap();
    let came: serde_json::Value = serde_json::from_str(index.lines().next().unwrap()).unwrap();
    let line = out.stdout.split(|&byte| byte == b'\n').next().unwrap();
    let went: serde_json::Value = serde_json::from_slice(line).unwrap();
    for key in ["bytes", "set", "time_ns", "dtype", "shape", "digest"] {
        assert!(!went[key].is_null() && went[key] == came[key], "{key}: {went} {came}");
    }
}

/// Else what takes frames would wait for the reader of events.
#[test]
fn a_reader_of_events_on_stderr_that_pauses_holds_up_no_frames_and_misses_no_event() {
    // Their lines are several times what a pipe takes.
    const SETS: usize = 3000;
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "sets");
    let mut pull = with(command(&scratch, "pull"), [place.as_str(), "-", "--framed", "--json"]);
    let mut pull = pull.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let mut stdout = pull.stdout.take().expect("a pipe");
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        stdout.read_to_end(&mut all).expect("all of it");
        let _ = tell.send(all);
    });
    let consumers = || status(&scratch, &place)["consumers"].as_array().map_or(0, Vec::len);
    assert!(wait_until(LIMIT, || consumers() == 1), "it does not come");
    let push = with(command(&scratch, "push"), ["-", place.as_str(), "--framed", "-q"]);
    let (push, mut stdin) = Running::fed(push);
    for set in 0..SETS {
        let declared = serde_json::json!({"declare_set": {"set": set, "frames": 1}});
        let head = serde_json::json!({"bytes": 1, "set": [set, 0]});
        stdin.write_all(format!("{declared}\n{head}\nx").as_bytes()).unwrap();
    }
    drop(stdin);
    push.end(LIMIT).expect(0);
    // Stdout ends with the program, which waits for the reader of stderr then, and not before.
    assert!(wait_until(LIMIT, || consumers() == 0), "{}", status(&scratch, &place));
    let out = finish(pull);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let told = String::from_utf8(out.stderr).unwrap();
    assert_eq!(told.lines().filter(|line| line.contains("\"event\":\"set\"")).count(), SETS);
    let came = hear.recv_timeout(LIMIT).expect("all of stdout");
    let of_set = b"\"set\":[";
    assert_eq!(came.windows(of_set.len()).filter(|bytes| *bytes == of_set).count(), SETS);
}

/// An index of five frames.
fn indexed(scratch: &Scratch) -> PathBuf {
    let directory = scratch.path("indexed");
    let mut files = FrameFiles::new(&directory, "frames", 0).unwrap();
    for sequence in 0..5 {
        let payload = noise(sequence, 10);
        files
            .frame(&Frame {
                producer: "cam".into(),
                sequence,
                set: None,
                time_ns: 7,
                deadline_ns: None,
                latency_ns: None,
                dtype: String::new(),
                shape: Vec::new(),
                metadata: Vec::new(),
                digest: Digest(*blake3::hash(&payload).as_bytes()),
                payload: payload.into(),
            })
            .unwrap();
    }
    files.close().unwrap();
    directory.join("frames-000000.jsonl")
}

/// Nobody asked it to stop: whoever takes the frames is gone.
#[test]
fn a_pull_whose_reader_is_gone_ends_with_3_as_a_stream_does() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "scan");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut pull = with(command(&scratch, "pull"), [place.as_str(), "-", "-q", "--from", "start"]);
    let pull = pull.stdout(writer).stderr(Stdio::piped()).spawn().expect("start");
    std::fs::write(scratch.path("in"), noise(1, 5000)).unwrap();
    let from = scratch.path("in").display().to_string();
    let _push = Running::start(with(
        command(&scratch, "push"),
        [from.as_str(), place.as_str(), "--frame-bytes", "1000", "-q"],
    ));
    let out = finish(pull);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_push_that_waits_for_its_pipe_ends_when_it_is_stopped_and_gives_what_it_read() {
    let (scratch, daemon) = stand();
    let fifo = scratch.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Between two frames, in the middle of one, and at a FIFO that nobody opened to write.
    for (name, from, bytes) in
        [("whole", "-", 3000), ("half", "-", 2500), ("nobody", fifo.to_str().unwrap(), 0)]
    {
        let place = daemon.place("data", name);
        let taker = receiver(&scratch, &place, by(FramePolicy::Block));
        let all = noise(1, bytes);
        let (mut left, mut given) = std::io::pipe().unwrap();
        given.write_all(&all).unwrap();
        let mut push = with(command(&scratch, "push"), [from, &place, "--frame-bytes", "1000", "--json"]);
        push.stdin(left.try_clone().unwrap()).stdout(Stdio::piped());
        let (push, _) = Running::start_as(push);
        let taken = || status(&scratch, &place)["producers"][0]["frames"].as_u64();
        assert!(wait_until(LIMIT, || taken() == Some(bytes as u64 / 1000)), "{name}: {:?}", taken());
        // What there is of another frame may be read by now.
        std::thread::sleep(Duration::from_millis(300));
        signal(push.pid(), Signal::SIGTERM);
        let pushed = push.end(LIMIT).expect(143);
        let mut came = Vec::new();
        take_frames(&taker, |frame| came.extend_from_slice(&frame.payload));
        drop(given);
        let mut rest = Vec::new();
        left.read_to_end(&mut rest).unwrap();
        let torn = pushed.finished()["torn"].as_array().map(Vec::len);
        assert_eq!(torn, Some(usize::from(!came.len().is_multiple_of(1000))), "{name}");
        came.extend(rest);
        assert!(came == all, "{name}: {} bytes of {bytes}", came.len());
    }
}

#[test]
fn an_index_comes_by_a_pipe_and_a_push_that_waits_for_it_ends_when_it_is_stopped() {
    let (scratch, daemon) = stand();
    let (out, place) = (scratch.path("out"), daemon.place("data", "first"));
    std::fs::write(scratch.path("in"), noise(1, 3000)).unwrap();
    let pull = with(command(&scratch, "pull"), [place.as_str(), out.to_str().unwrap(), "-q"]);
    let pull = Running::start(pull);
    let from = scratch.path("in").display().to_string();
    let push = with(command(&scratch, "push"), [from.as_str(), &place, "--frame-bytes", "1000", "-q"]);
    Running::start(push).end(LIMIT).expect(0);
    pull.end(LIMIT).expect(0);
    let fifo = out.join("index");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let index = std::fs::read(out.join("frames-000000.jsonl")).unwrap();
    let again = daemon.place("data", "again");
    let taker = receiver(&scratch, &again, by(FramePolicy::Block));
    let push = with(command(&scratch, "push"), [fifo.to_str().unwrap(), &again, "--index", "-q"]);
    let (push, _) = Running::start_as(push);
    // Held open: nobody sees an end of it. The last line is not whole.
    let mut pipe = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    pipe.write_all(&index[..index.len() - 10]).unwrap();
    let taken = || status(&scratch, &again)["producers"][0]["frames"].as_u64();
    assert!(wait_until(LIMIT, || taken() == Some(2)), "{:?}", taken());
    signal(push.pid(), Signal::SIGTERM);
    push.end(LIMIT).expect(143);
    let mut came = Vec::new();
    take_frames(&taker, |frame| came.extend_from_slice(&frame.payload));
    assert!(came == noise(1, 3000)[..2000], "{} bytes", came.len());
}

#[test]
fn every_consumer_gets_everything_of_every_producer_in_order() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "panels");
    let (makers, takers, frames, bytes) = (4u64, 3, 60u64, 20_000);
    std::thread::scope(|scope| {
        let got: Vec<_> = (0..takers)
            .map(|_| {
                let wishes = ReceiverWishes { producers: makers as u32, ..by(FramePolicy::Block) };
                let receiver = receiver(&scratch, &place, wishes);
                scope.spawn(move || drain(&receiver, bytes))
            })
            .collect();
        for maker in 0..makers {
            let (scratch, place) = (&scratch, &place);
            scope.spawn(move || {
                let name = format!("panel{maker}");
                let sender = sender(scratch, place, &name, SenderWishes::default());
                push_all(&sender, &name, 0, frames, bytes);
                assert_eq!(sender.finish(Some(LIMIT)).expect("an end").frames, frames);
            });
        }
        for got in got {
            let got = got.join().expect("no panic");
            assert!(got.lost.is_empty());
            for maker in 0..makers {
                assert_eq!(got.count(&format!("panel{maker}")), frames);
            }
        }
    });
    let status = status(&scratch, &place);
    assert_eq!(status["producers"].as_array().unwrap().len(), makers as usize);
    assert_eq!((&status["memory_bytes"], &status["frames"]), (&0.into(), &0.into()));
}

#[test]
fn a_group_shares_and_what_a_member_had_not_taken_goes_to_the_others() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "work");
    let wishes = || ReceiverWishes { group: Some("workers".into()), ..by(FramePolicy::Block) };
    let (first, second) = (receiver(&scratch, &place, wishes()), receiver(&scratch, &place, wishes()));
    let sender = sender(&scratch, &place, "source", SenderWishes::default());
    let frames = 200u64;
    let mut seen = BTreeSet::new();
    push_all(&sender, "source", 0, 20, 5000);
    // It has some under way when it leaves, and took only one.
    let until = std::time::Instant::now() + LIMIT;
    while seen.is_empty() {
        assert!(std::time::Instant::now() < until, "nothing came");
        if let Some(Delivery::Frame(frame)) = first.next(Some(Duration::from_millis(100))).unwrap() {
            seen.insert(frame.sequence);
        }
    }
    first.close();
    drop(first);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            push_all(&sender, "source", 20, frames, 5000);
            sender.finish(Some(LIMIT)).expect("an end");
        });
        while seen.len() < frames as usize {
            assert!(std::time::Instant::now() < until, "only {} of {frames} came", seen.len());
            match second.next(Some(Duration::from_millis(100))).unwrap() {
                Some(Delivery::Frame(frame)) => {
                    assert!(seen.insert(frame.sequence), "{} twice", frame.sequence)
                }
                Some(Delivery::End(_)) => break,
                _ => {}
            }
        }
    });
    assert_eq!(seen.len() as u64, frames);
}

#[test]
fn late_consumers_replay_a_recorded_channel_also_after_its_hub_was_killed() {
    let (scratch, daemon) = stand();
    let (address, place) = (daemon.address(), daemon.place("data", "scan"));
    let recorded = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    let wishes = SenderWishes {
        channel: recorded,
        level: thalweg_client::frames::HeldLevel::Durable,
        ..SenderWishes::default()
    };
    let sender = sender(&scratch, &place, "cam", wishes);
    sender.declare_set(9, 50).unwrap();
    for sequence in 0..50 {
        let frame = NewFrame { set: Some((9, sequence as u32)), ..frame("cam", sequence, 30_000) };
        sender.push(frame, Some(LIMIT)).unwrap();
    }
    sender.finish(Some(LIMIT)).expect("an end");
    let early = drain(&receiver(&scratch, &place, by(FramePolicy::Block)), 30_000);
    assert_eq!((early.count("cam"), early.lost.len(), early.sets.len()), (50, 0, 1));
    daemon.kill();
    let _daemon = scratch.daemon_at(&address, &[("data", &scratch.path("export"))], &[], |command| command);
    let late = drain(&receiver(&scratch, &place, by(FramePolicy::Block)), 30_000);
    assert_eq!((late.count("cam"), late.lost.len()), (50, 0));
    assert!(late.sets[0].is_complete());
    let from = ReceiverWishes { from: FrameFrom::Sequence(45), ..by(FramePolicy::Block) };
    let some = receiver(&scratch, &place, from);
    let mut sequences = Vec::new();
    take_all(&some, |delivery| match delivery {
        Delivery::Frame(frame) => sequences.push(frame.sequence),
        other => assert!(matches!(other, Delivery::Set(_)), "{other:?}"),
    });
    assert_eq!(sequences, [45, 46, 47, 48, 49]);
}

#[test]
fn a_set_says_which_of_its_frames_are_missing() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "sets");
    let receiver = receiver(&scratch, &place, ReceiverWishes { producers: 2, ..ReceiverWishes::default() });
    let (a, b) = (
        sender(&scratch, &place, "a", SenderWishes::default()),
        sender(&scratch, &place, "b", SenderWishes::default()),
    );
    // Two make one set together; of the other some are never made.
    for (maker, name, indexes) in [(&a, "a", 0..5u32), (&b, "b", 5..10)] {
        maker.declare_set(1, 10).unwrap();
        for (sequence, index) in indexes.enumerate() {
            let frame = NewFrame { set: Some((1, index)), ..frame(name, sequence as u64, 100) };
            maker.push(frame, Some(LIMIT)).unwrap();
        }
    }
    // A producer that ends has said all of its sets: the other's part must be there by then.
    assert!(wait_until(LIMIT, || a.figures().waiting == 0 && b.figures().waiting == 0));
    a.declare_set(2, 10).unwrap();
    assert_eq!(a.declare_set(2, 11).unwrap_err().kind, FailureKind::Usage);
    for (sequence, index) in [(5, 0), (6, 4), (7, 9)] {
        a.push(NewFrame { set: Some((2, index)), ..frame("a", sequence, 100) }, Some(LIMIT)).unwrap();
    }
    a.finish(Some(LIMIT)).unwrap();
    b.finish(Some(LIMIT)).unwrap();
    let got = drain(&receiver, 100);
    assert_eq!(got.sets.len(), 2);
    let set = |number| got.sets.iter().find(|report| report.set == number).expect("a report");
    assert!(set(1).is_complete());
    assert_eq!((set(2).delivered, set(2).taken, &set(2).missing[..]), (3, 3, &[(1, 4), (5, 9)][..]));
}

#[test]
fn of_a_scan_of_1440_frames_exactly_those_that_were_not_made_are_named() {
    const FRAMES: u32 = 1440;
    // The first and the last, one alone, a run over the edges of words of 64, and a comb.
    let mut holes: BTreeSet<u32> = [0, 9, 1438, 1439].into_iter().chain(120..260).collect();
    holes.extend((400..1300).step_by(7));
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "scan");
    let pull = Running::start(with(command(&scratch, "pull"), [place.as_str(), "null:", "--json"]));
    let maker = sender(&scratch, &place, "cam", SenderWishes::default());
    maker.declare_set(42, FRAMES).unwrap();
    for (sequence, index) in (0..FRAMES).filter(|index| !holes.contains(index)).enumerate() {
        let frame = NewFrame { set: Some((42, index)), ..frame("cam", sequence as u64, 100) };
        maker.push(frame, Some(LIMIT)).unwrap();
    }
    maker.finish(Some(LIMIT)).unwrap();
    let pulled = pull.end(LIMIT).expect(2);
    let set = told(&pulled, "set");
    assert_eq!((&set["set"], &set["frames"], &set["complete"]), (&42.into(), &FRAMES.into(), &false.into()));
    assert_eq!(set["delivered"], FRAMES as usize - holes.len());
    let missing: Vec<(u32, u32)> = serde_json::from_value(set["missing"].clone()).unwrap();
    let named: Vec<u32> = missing.iter().flat_map(|&(first, end)| first..end).collect();
    assert!(named.iter().copied().eq(holes.iter().copied()), "{missing:?}");
    // As ranges: no two touch.
    assert!(missing.windows(2).all(|pair| pair[0].1 < pair[1].0), "{missing:?}");
}

#[test]
fn the_worst_latency_is_held_against_what_the_link_could_do() {
    const BYTES: usize = 100_000;
    let (scratch, daemon) = stand();
    let input = scratch.path("in");
    std::fs::write(&input, noise(1, 40 * BYTES)).unwrap();
    for (name, link) in [("rated", &["--link-rate", "1Gbit/s"][..]), ("bare", &[])] {
        let place = daemon.place("data", name);
        let pull = with(command(&scratch, "pull"), [place.as_str(), "null:", "--json"]);
        let pull = Running::start(with(pull, link.iter().copied()));
        let push = [input.to_str().unwrap(), &place, "--frame-bytes", "100000", "--frames-per-s", "100"];
        Running::start(with(command(&scratch, "push"), push)).end(LIMIT).expect(0);
        let pulled = pull.end(LIMIT).expect(0);
        let tail = &pulled.finished()["latency"];
        let score = &tail["speed_score"];
        if link.is_empty() {
            assert!(tail.is_object() && score.is_null(), "{tail}");
            continue;
        }
        // 100 kB at 1 Gbit/s take 0.8 ms.
        let expected = tail["max_s"].as_f64().unwrap() / (BYTES as f64 * 8.0 / 1e9);
        let score = score.as_f64().unwrap();
        assert!(score > 0.0 && (score / expected - 1.0).abs() < 1e-6, "{score} for {expected}: {tail}");
    }
}

#[test]
fn the_status_of_a_channel_has_the_latencies_of_those_who_consume_at_that_moment() {
    let held = Duration::from_millis(200);
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "live");
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let maker = sender(&scratch, &place, "m", SenderWishes::default());
    let consumer = || status(&scratch, &place)["consumers"][0].clone();
    let tail = |consumer: &serde_json::Value| {
        ["p50", "p90", "p99", "max"].map(|name| consumer["taken_after_s"][name].as_f64().unwrap())
    };
    let take = |frames: u64| {
        for _ in 0..frames {
            assert!(matches!(taker.next(Some(LIMIT)).unwrap(), Some(Delivery::Frame(_))));
        }
    };
    let said = || {
        let mut command = scratch.thalweg();
        let output =
            command.env("THALWEG_TICKET", scratch.path("ticket")).args(["frames", "status", &place]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(wait_until(LIMIT, || consumer()["taken"] == 0));
    assert!(said().contains("from hub to taken P50 -, P90 -, P99 -, longest -"), "{}", said());
    assert!(consumer()["taken_after_s"]["p50"].is_null());
    push_all(&maker, "m", 0, 20, 1000);
    take(20);
    assert!(wait_until(LIMIT, || consumer()["taken"] == 20));
    let [p50, p90, p99, max] = tail(&consumer());
    assert!(0.0 < p50 && p50 <= p90 && p90 <= p99 && p99 <= max, "{p50} {p90} {p99} {max}");
    // One that nobody takes for a while, after the hub has it.
    push_all(&maker, "m", 20, 21, 1000);
    assert!(wait_until(LIMIT, || status(&scratch, &place)["producers"][0]["frames"] == 21));
    std::thread::sleep(held);
    take(1);
    assert!(wait_until(LIMIT, || consumer()["taken"] == 21));
    let now = consumer();
    assert!(tail(&now)[3] >= held.as_secs_f64(), "{now}");
    let said = said();
    let is_told = said.contains("from hub to taken P50 ") && !said.contains("longest -");
    assert!(is_told && said.contains(", longest "), "{said}");
    maker.finish(Some(LIMIT)).unwrap();
}

#[test]
fn a_consumer_may_have_the_hub_in_its_own_process() {
    let scratch = Scratch::new();
    let (input, got, hub) = (scratch.path("in"), scratch.path("got"), scratch.path("hub"));
    let content = noise(5, 24 * 100_000);
    std::fs::write(&input, &content).unwrap();
    let ticket = hub.join("ticket");
    let pull = ["frames", "pull", "scan", got.to_str().unwrap(), "--hub", hub.to_str().unwrap(), "--json"];
    // One for another daemon is not its own, and nothing is told of what holds for all commands.
    let mut pull = with(with(scratch.thalweg(), pull), ["--via", "10.1.0.7"]);
    pull.env("THALWEG_TICKET", scratch.path("of another")).env("THALWEG_BIND", "lo");
    let pull = Running::start(pull);
    let address = || thalweg_mover::link::ticket::Ticket::read(&ticket).ok()?.addresses.into_iter().next();
    assert!(wait_until(LIMIT, || address().is_some()));
    let place = format!("tw://{}/hub/scan", address().unwrap());
    let kept = scratch.path("ticket that was");
    std::fs::copy(&ticket, &kept).unwrap();
    let push = ["frames", "push", input.to_str().unwrap(), &place, "--frame-bytes", "100000", "--json"];
    let push = with(scratch.thalweg(), push);
    let pushed = Running::start(with(push, ["--ticket", ticket.to_str().unwrap()])).end(LIMIT).expect(0);
    assert_eq!((pushed.number("frames"), &pushed.finished()["outages"]), (24, &0.into()));
    let pulled = pull.end(LIMIT).expect(0);
    assert_eq!(pulled.number("frames"), 24);
    let note = "without effect with --hub: --via (--listen says where producers come in)";
    assert_eq!(told(&pulled, "note")["text"], note);
    let hub_event = told(&pulled, "hub");
    assert_eq!(
        (&hub_event["place"], &hub_event["ticket"]),
        (&place.as_str().into(), &ticket.to_str().into())
    );
    assert!(std::fs::read(got.join("frames-000000.raw")).unwrap() == content);
    // It is gone with its consumer, and so is its ticket; what is no name is none.
    assert!(!ticket.exists());
    let late = with(scratch.thalweg(), ["frames", "status", &place, "--ticket", kept.to_str().unwrap()]);
    Running::start(late).end(LIMIT).expect(3);
    let bad = ["frames", "pull", "tw://x/y/z", "null:", "--hub", hub.to_str().unwrap()];
    Running::start(with(scratch.thalweg(), bad)).end(LIMIT).expect(1);
}

#[test]
fn a_set_that_is_not_what_was_said_of_it_is_told_at_both_ends() {
    let (scratch, daemon) = stand();
    let input = scratch.path("in");
    std::fs::write(&input, noise(1, 24 * 1000)).unwrap();
    // What is said, the frames that go, the exit code of the push and of the pull, and what the pull hears is missing.
    for (said, sent, push_exit, pull_exit, missing) in
        [("24", 24, 0, 0, vec![]), ("30", 24, 2, 2, vec![[24, 30]]), ("20", 20, 2, 0, vec![])]
    {
        let place = daemon.place("data", said);
        let pull = Running::start(with(command(&scratch, "pull"), [place.as_str(), "null:", "--json"]));
        let push =
            with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "1000"]);
        let push = with(push, ["--json", "--set", "7", "--set-frames", said]);
        let pushed = Running::start(push).end(LIMIT).expect(push_exit);
        assert_eq!((pushed.number("frames"), pushed.number("exit")), (sent, push_exit as u64));
        let frames: u32 = said.parse().unwrap();
        let set = serde_json::json!({"set": 7, "frames": frames, "pushed": sent});
        assert_eq!(pushed.finished()["set"], set);
        let is_told = pushed.stderr.contains(&format!("the set 7 was to have {said} frames"));
        assert_eq!(is_told, push_exit != 0, "{}", pushed.stderr);
        let pulled = pull.end(LIMIT).expect(pull_exit);
        assert_eq!(pulled.number("frames"), sent);
        let set = told(&pulled, "set");
        assert_eq!((&set["frames"], &set["missing"]), (&frames.into(), &serde_json::json!(missing)));
    }
    // Cut while it is sent.
    let place = daemon.place("data", "cut");
    std::fs::write(&input, noise(1, 200 * 1000)).unwrap();
    let pull = Running::start(with(command(&scratch, "pull"), [place.as_str(), "null:", "--json"]));
    let push = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "1000"]);
    let push = Running::start(with(push, ["--json", "--set", "7", "--frames-per-s", "20"]));
    let taken = || status(&scratch, &place)["producers"][0]["frames"].as_u64().unwrap_or(0);
    assert!(wait_until(LIMIT, || taken() >= 5));
    std::fs::OpenOptions::new().write(true).open(&input).unwrap().set_len(60 * 1000).unwrap();
    let pushed = push.end(LIMIT).expect(5).number("frames");
    assert!((60..200).contains(&pushed), "{pushed}");
    let set = told(&pull.end(LIMIT).expect(2), "set");
    assert_eq!((&set["frames"], &set["missing"]), (&200.into(), &serde_json::json!([[pushed, 200]])));
    // Frames of no set have no number to be held to.
    let push = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "1000"]);
    Running::start(with(push, ["--set-frames", "60"])).end(LIMIT).expect(1);
}

#[test]
fn a_frame_that_comes_later_than_its_deadline_is_told_to_be_late() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "scan");
    let taker = receiver(&scratch, &place, by(FramePolicy::Block));
    let maker = sender(&scratch, &place, "cam", SenderWishes::default());
    let is_measured =
        || taker.figures().clock.is_some() && status(&scratch, &place)["producers"][0]["clock"].is_object();
    assert!(wait_until(LIMIT, is_measured));
    for sequence in 0..30 {
        let deadline_ns = [Some(1), Some(1_000_000_000_000), None][sequence as usize % 3];
        // Made a second ago: no clock of this machine is measured so badly.
        let time_ns = Some(wall_ns() - 1_000_000_000);
        let made = NewFrame { time_ns, deadline_ns, ..frame("cam", sequence, 100) };
        maker.push(made, Some(LIMIT)).unwrap();
    }
    maker.finish(Some(LIMIT)).unwrap();
    let mut late = Vec::new();
    let report = take_frames(&taker, |frame| late.push(frame.is_late()));
    assert_eq!(late, [Some(true), Some(false), None].repeat(10));
    let figures = report.figures;
    assert_eq!((figures.with_deadline, figures.late, figures.deadline_unknown), (20, 10, 0));
    assert_eq!((figures.unmeasured, figures.latency.expect("a tail").count), (0, 30));
    // By the program, with a deadline of a nanosecond.
    let place = daemon.place("data", "program");
    let pulls = [&["--json"][..], &[]]
        .map(|more| Running::start(with(with(command(&scratch, "pull"), [place.as_str(), "null:"]), more)));
    let consumers = || status(&scratch, &place)["consumers"].as_array().map_or(0, Vec::len);
    assert!(wait_until(LIMIT, || consumers() == 2));
    std::fs::write(scratch.path("in"), noise(1, 100 * 1000)).unwrap();
    let input = scratch.path("in");
    let push = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "1000"]);
    let push = with(push, ["--deadline", "0.001us", "--frames-per-s", "50"]);
    Running::start(push).end(LIMIT).expect(0);
    let [events, text] = pulls.map(|pull| pull.end(LIMIT).expect(0));
    let [late, unknown, all] = ["late", "deadline_unknown", "with_deadline"].map(|key| events.number(key));
    assert!(late > 0 && late + unknown <= all && all == 100, "{late} and {unknown} of {all}");
    let measured = events.finished()["latency"]["count"].as_u64().expect("a tail");
    assert_eq!(measured + events.number("unmeasured"), 100);
    let is_told = text.stderr.contains(" of 100 late") && !text.stderr.contains("; 0 of 100 late");
    assert!(is_told, "{}", text.stderr);
}

#[test]
fn frames_that_are_held_up_count_from_when_they_were_due() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "scan");
    let wishes = ReceiverWishes { window_bytes: 64 << 10, channel: small(300_000), ..by(FramePolicy::Block) };
    let taker = receiver(&scratch, &place, wishes);
    std::fs::write(scratch.path("in"), noise(1, 100 * 100_000)).unwrap();
    let input = scratch.path("in");
    let push = with(command(&scratch, "push"), [input.to_str().unwrap(), &place, "--frame-bytes", "100000"]);
    let push = with(push, ["--frames-per-s", "100", "--window", "64KiB", "--json"]);
    let push = Running::start(push);
    // Nobody takes anything while all of them become due.
    let taken = || status(&scratch, &place)["producers"][0]["frames"].as_u64().unwrap_or(0);
    assert!(wait_until(LIMIT, || taken() >= 1));
    std::thread::sleep(Duration::from_secs(4));
    let mut made_ns = Vec::new();
    let report = take_frames(&taker, |frame| made_ns.push(frame.time_ns));
    let pushed = push.end(LIMIT).expect(0);
    let blocked_s = pushed.finished()["blocked_s"].as_f64().unwrap();
    assert!(blocked_s > 1.0, "held up for {blocked_s} s only");
    // A hundredth of a second apart, whatever they waited for; a machine that stands still between two looks at its
    // clocks is no error.
    assert_eq!(made_ns.len(), 100);
    for (number, made_ns) in made_ns.iter().map(|ns| ns.saturating_sub(made_ns[0])).enumerate() {
        let off_ns = made_ns.abs_diff(number as u64 * 10_000_000);
        assert!(off_ns < 2_000_000_000, "frame {number} was made {made_ns} ns after the first");
    }
    let longest_ns = report.figures.latency.expect("a tail").max_ns;
    assert!(longest_ns > 1_000_000_000, "{longest_ns}");
}

#[test]
fn each_member_of_a_group_hears_what_all_of_them_have_of_a_set() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "shared");
    let wishes = || ReceiverWishes { group: Some("workers".into()), ..by(FramePolicy::Block) };
    let members = [receiver(&scratch, &place, wishes()), receiver(&scratch, &place, wishes())];
    let maker = sender(&scratch, &place, "cam", SenderWishes::default());
    maker.declare_set(1, 40).unwrap();
    maker.declare_set(2, 10).unwrap();
    // All of the first, three of the second.
    let indexes = (0..40).map(|index| (1, index)).chain([(2, 0), (2, 4), (2, 9)]);
    for (sequence, set) in indexes.enumerate() {
        let frame = NewFrame { set: Some(set), ..frame("cam", sequence as u64, 2000) };
        maker.push(frame, Some(LIMIT)).unwrap();
    }
    let got: Vec<(BTreeSet<u64>, Vec<_>)> = std::thread::scope(|scope| {
        let take = |member| {
            let (mut seen, mut sets) = (BTreeSet::new(), Vec::new());
            take_all(member, |delivery| match delivery {
                Delivery::Frame(frame) => assert!(seen.insert(frame.sequence)),
                Delivery::Set(report) => sets.push(report),
                other => panic!("{other:?}"),
            });
            (seen, sets)
        };
        let taken: Vec<_> = members.iter().map(|member| scope.spawn(move || take(member))).collect();
        maker.finish(Some(LIMIT)).expect("an end");
        taken.into_iter().map(|taken| taken.join().expect("no panic")).collect()
    });
    assert!(got[0].0.is_disjoint(&got[1].0) && got[0].0.len() + got[1].0.len() == 43, "each frame once");
    for (seen, sets) in &got {
        assert_eq!(sets.len(), 2, "{} frames and {sets:?}", seen.len());
        let set = |number| sets.iter().find(|report| report.set == number).expect("a report");
        assert!(set(1).is_complete() && set(1).delivered == 40);
        assert_eq!((set(2).delivered, set(2).taken, &set(2).missing[..]), (3, 3, &[(1, 4), (5, 9)][..]));
    }
}

#[test]
fn a_hub_inside_a_process_needs_no_other() {
    let scratch = Scratch::new();
    let ticket = scratch.path("ticket");
    std::fs::create_dir(scratch.path("hub")).unwrap();
    let hub = Hub::start(&HubWishes::new(&scratch.path("hub"), &ticket)).expect("a hub");
    let place = hub.place("scan").unwrap();
    assert!(hub.place("../scan").is_err());
    let receiver = Receiver::open(&place, how(&ticket), ReceiverWishes::default()).expect("a receiver");
    let wishes = SenderWishes { producer: Some("x".into()), ..SenderWishes::default() };
    let sender = Sender::open(&place, how(&ticket), wishes).expect("a sender");
    let shaped = NewFrame {
        dtype: "<u2".into(),
        shape: vec![5, 10],
        metadata: b"angle".to_vec(),
        ..frame("x", 0, 100)
    };
    sender.push(shaped, Some(LIMIT)).unwrap();
    push_all(&sender, "x", 1, 20, 100);
    sender.finish(Some(LIMIT)).unwrap();
    let Some(Delivery::Frame(first)) = receiver.next(Some(LIMIT)).unwrap() else { panic!("a frame") };
    assert_eq!(
        (&first.dtype[..], &first.shape[..], &first.metadata[..]),
        ("<u2", &[5, 10][..], &b"angle"[..])
    );
    let mut count = 1;
    take_all(&receiver, |delivery| count += u64::from(matches!(delivery, Delivery::Frame(_))));
    assert_eq!(count, 20);
    assert_eq!(receiver.next(Some(Duration::ZERO)).unwrap(), None, "nothing follows the end");
    hub.stop();
}

#[test]
fn what_no_channel_is_or_may_be_is_refused_with_its_reason() {
    let scratch = Scratch::new();
    let (export, shut) = (scratch.path("export"), scratch.path("shut"));
    std::fs::create_dir(&export).unwrap();
    std::fs::create_dir(&shut).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let ticket = scratch.path("ticket");
    let open = |place: &str, wishes: SenderWishes| {
        Sender::open(&os(place), how(&ticket), wishes).err().map(|failure| failure.kind)
    };
    let plain = SenderWishes::default;
    assert_eq!(open("/tmp/x", plain()), Some(FailureKind::Usage));
    assert_eq!(open(&daemon.place("data", ""), plain()), Some(FailureKind::Usage));
    assert_eq!(open(&daemon.place("data", "../x"), plain()), Some(FailureKind::Usage));
    assert_eq!(open(&daemon.place("other", "x"), plain()), Some(FailureKind::NotFound));
    let odd = SenderWishes { producer: Some("a/b".into()), ..plain() };
    assert_eq!(open(&daemon.place("data", "x"), odd), Some(FailureKind::Usage));
    let tiny = SenderWishes { window_bytes: 1, ..plain() };
    assert_eq!(open(&daemon.place("data", "x"), tiny), Some(FailureKind::Usage));
    let one = sender(&scratch, &daemon.place("data", "x"), "one", plain());
    let again = SenderWishes { producer: Some("one".into()), ..plain() };
    assert_eq!(open(&daemon.place("data", "x"), again), Some(FailureKind::Busy));
    let bad = NewFrame { shape: vec![3], dtype: "<u2".into(), ..frame("one", 0, 5) };
    assert_eq!(one.push(bad, Some(LIMIT)).unwrap_err().kind, FailureKind::Usage);
    assert_eq!(one.push(frame("one", 0, 5), Some(LIMIT)).expect("it goes on"), 0);
    // Where nothing may be written, nothing is pushed and nothing spilled; what is there may be taken.
    drop(daemon);
    let shut = format!("{}:ro", shut.display());
    let daemon = scratch.daemon(&[("shut", std::path::Path::new(&shut))]);
    assert_eq!(open(&daemon.place("shut", "x"), plain()), Some(FailureKind::Permission));
    let spill = Receiver::open(&os(&daemon.place("shut", "x")), how(&ticket), by(FramePolicy::Spill));
    assert_eq!(spill.err().map(|failure| failure.kind), Some(FailureKind::Permission));
    let taker = receiver(&scratch, &daemon.place("shut", "x"), by(FramePolicy::Block));
    assert_eq!(taker.next(Some(Duration::from_millis(50))).unwrap(), None);
}

#[test]
fn a_channel_that_nobody_uses_any_more_leaves_nothing_behind() {
    let (scratch, daemon) = stand();
    let place = daemon.place("data", "scan");
    let taker = receiver(&scratch, &place, by(FramePolicy::Spill));
    let sender = sender(&scratch, &place, "s", SenderWishes::default());
    push_all(&sender, "s", 0, 3, 100);
    sender.finish(Some(LIMIT)).unwrap();
    assert_eq!(drain(&taker, 100).count("s"), 3);
    drop((taker, sender));
    assert!(daemon.terminate().success());
    assert!(wait_until(LIMIT, || std::fs::read_dir(scratch.path("export")).unwrap().next().is_none()));
}
