//! Servers that fall silent, at each step of a push and of a pull.

use super::*;

/// What becomes of the statement of a server that is honest until then.
pub(super) type Statements<'a> = &'a dyn Fn(Signed) -> Signed;

/// Where a server falls silent: it says nothing of this step, nor of what comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Tls,
    Hello,
    Opened,
    Stream,
    // Of one that sends.
    Offer,
    OfferEnd,
    Data,
    HalfTheData,
    Seal,
    // Of one that receives.
    Want,
    Ack,
    Settle,
    Finish,
    Receipt,
    Never,
}

/// A session with the client that comes, unless the server is silent before that.
fn begin(server: &HostileServer, stop: Step, ends: Instant) -> Option<Line> {
    if stop == Step::Tls {
        let mut held = Vec::new();
        while Instant::now() < ends {
            held.extend(server.accept_raw(Duration::from_millis(50)));
        }
        return None;
    }
    let mut connection = server.accept(SOON)?;
    connection.read_hello(SOON).ok()?;
    if stop == Step::Hello {
        std::thread::sleep(ends.saturating_duration_since(Instant::now()));
        return None;
    }
    let answer = ServerHello {
        version: 1,
        versions: (1, 1),
        answer: Answer::Accepted,
        cipher: CIPHER,
        features: 0,
        session: [9; 16],
        system: System::default(),
    };
    let key = *connection.export_session_key().unwrap();
    connection.answer(&answer, SOON).unwrap();
    Some(Line { connection, session: [9; 16], key })
}

/// Silent from here on, to whoever dials as well; with heartbeats or without.
fn be_silent(server: &HostileServer, mut line: Line, beats: bool, ends: Instant) {
    let mut held = Vec::new();
    let mut beat_at = Instant::now();
    while Instant::now() < ends {
        if beats && beat_at <= Instant::now() {
            beat_at = Instant::now() + Duration::from_millis(500);
            if !line.say(&heartbeat()) && held.is_empty() {
                return;
            }
        }
        held.extend(server.accept_raw(Duration::from_millis(50)));
    }
}

/// An honest receiver of one file until `stop`, then silent.
pub(super) fn receive_until(
    server: &HostileServer,
    stop: Step,
    beats: bool,
    ends: Instant,
    statements: Statements,
) {
    let Some(mut line) = begin(server, stop, ends) else { return };
    let (mut entry, mut open) = (None, None);
    let (tell, comes) = std::sync::mpsc::channel();
    if stop > Step::Opened {
        open = agree(&mut line, SourceForm::Many);
    }
    if stop > Step::Stream {
        let mut stream = server.stream(SOON).expect("a stream");
        std::thread::spawn(move || {
            while stream.receive().is_some() {
                let _ = tell.send(());
            }
        });
        entry = line.hear_some(SOON, |message| match message {
            Message::Transfer(_, T::Offer(entries)) => Some(entries[0].clone()),
            _ => None,
        });
    }
    let (id, digest) = (EntryId(0), digest_of(b"five!"));
    let totals = Totals { done: 1, bytes_done: 5, ..Totals::default() };
    let words = [
        (Step::Want, T::Want(vec![(id, Want::Whole)])),
        (Step::Ack, T::Ack(AckLevel::Verified, vec![(id, Run { first: 0, count: 1 })])),
        (Step::Settle, T::Settled(vec![(id, done(Some(digest)))])),
        (Step::Finish, T::Finished(totals)),
    ];
    for (step, word) in words {
        if stop > step {
            std::thread::sleep(Duration::from_millis(200));
            // What a client that is held up has not sent yet nobody acknowledges, and nobody finishes.
            match step {
                Step::Ack => comes.recv_timeout(SOON).expect("its content comes"),
                Step::Finish => {
                    let end = line.hear_some(SOON, |message| match message {
                        Message::Transfer(_, T::OfferEnd(_)) => Some(()),
                        _ => None,
                    });
                    end.expect("the end of its offers");
                }
                _ => {}
            }
            line.tell(word);
        }
    }
    if stop > Step::Receipt {
        let (entry, open) = (entry.expect("an offer"), open.expect("an open"));
        let settled = [(entry, done(Some(digest)))];
        let signed = server.receipt(Side::Receiver, (&line, &open), &settled, totals);
        line.tell(T::Receipt(Box::new(statements(signed))));
    }
    after(server, line, stop, beats, ends);
}

/// What an honest server does when all is said, or the silence.
fn after(server: &HostileServer, mut line: Line, stop: Step, beats: bool, ends: Instant) {
    if stop == Step::Never {
        line.is_ended(SOON);
        return;
    }
    be_silent(server, line, beats, ends);
}

/// An honest sender of one file of two chunks until `stop`, then silent.
pub(super) fn send_until(
    server: &HostileServer,
    stop: Step,
    beats: bool,
    ends: Instant,
    statements: Statements,
) {
    let Some(mut line) = begin(server, stop, ends) else { return };
    if stop == Step::Opened {
        return be_silent(server, line, beats, ends);
    }
    let open = agree(&mut line, SourceForm::Single { name: b"x".to_vec() }).expect("an open");
    let entry = file(0, "x", 2 * CHUNK);
    let content = noise(5, 2 * CHUNK as usize);
    let mut stream = (stop > Step::Stream).then(|| server.stream(SOON).expect("a stream"));
    if stop > Step::Offer {
        line.tell(T::Offer(vec![entry.clone()]));
        let wanted = |message| matches!(message, Message::Transfer(_, T::Want(_))).then_some(());
        line.hear_some(SOON, wanted).expect("it is wanted");
    }
    if stop > Step::OfferEnd {
        line.tell(T::OfferEnd(ScanTotals {
            entries: 1,
            bytes: 2 * CHUNK,
            failed: 0,
            complete: true,
            empty: 0,
        }));
    }
    for (step, at) in [(Step::Data, 0), (Step::HalfTheData, CHUNK)] {
        if let Some(stream) = stream.as_mut().filter(|_| stop > step) {
            stream.segment(0, at, &content[at as usize..(at + CHUNK) as usize], 2 * CHUNK);
        }
    }
    let mut totals = Totals::default();
    if stop > Step::Seal {
        line.tell(T::Seal(vec![(
            EntryId(0),
            Seal { evidence: entry.evidence, digest: digest_of(&content), asked: 0 },
        )]));
        let finished = line.hear_some(SOON, |message| match message {
            Message::Transfer(_, T::Finished(totals)) => Some(totals),
            _ => None,
        });
        totals = finished.expect("it is finished");
    }
    if stop > Step::Receipt {
        let settled = [(entry, done(Some(digest_of(&content))))];
        let signed = server.receipt(Side::Sender, (&line, &open), &settled, totals);
        line.tell(T::Receipt(Box::new(statements(signed))));
    }
    after(server, line, stop, beats, ends);
    drop(stream);
}

/// Steps that are tried at the same time: clients are programs that start, and more of them would wait for each other.
const STEPS_AT_ONCE: usize = 6;

/// Each step with heartbeats and without, some at the same time: the client ends by itself, within its patience.
fn all_silences(steps: &[Step], pulls: bool) {
    let told: Vec<String> = steps.chunks(STEPS_AT_ONCE).flat_map(|few| silences(few, pulls)).collect();
    told.iter().for_each(|line| println!("{line}"));
    assert!(!told.iter().any(|line| line.starts_with("WRONG")), "{told:#?}");
}

/// What came of these, a line each.
fn silences(steps: &[Step], pulls: bool) -> Vec<String> {
    std::thread::scope(|scope| {
        let jobs: Vec<_> = steps
            .iter()
            .flat_map(|&step| [(step, true), (step, false)])
            .map(|(step, beats)| {
                scope.spawn(move || {
                    let scratch = Scratch::new();
                    std::fs::write(scratch.path("file"), b"five!").unwrap();
                    let server = HostileServer::new(&scratch, "bad-ticket");
                    let (here, there) = (scratch.path("file").display().to_string(), server.place("x"));
                    let to = scratch.path("to").display().to_string();
                    let places = if pulls { [there, to] } else { [here, there] };
                    let cp = if step == Step::Never { patient_cp } else { cp };
                    let job = Running::start(cp(&scratch, &server, &places));
                    let ends = Instant::now() + Duration::from_secs(90);
                    let serving = std::thread::spawn(move || match pulls {
                        true => send_until(&server, step, beats, ends, &|signed| signed),
                        false => receive_until(&server, step, beats, ends, &|signed| signed),
                    });
                    let ran = job.end(Duration::from_secs(100));
                    drop(serving);
                    let want = if step == Step::Never { Some(0) } else { Some(3) };
                    let stands = scratch.path("to").exists();
                    // The patience, a dial, and what a busy machine takes.
                    let what = format!("silence at {step:?}, heartbeats {beats}");
                    let is_good = ran.code == want
                        && in_time(&what, ran.took, Duration::from_secs(18))
                        && (!pulls || step >= Step::Receipt || !stands);
                    let line = format!(
                        "{step:?}, heartbeats {beats}: {:?} after {:.1} s: {}",
                        ran.code,
                        ran.took.as_secs_f64(),
                        ran.stderr.lines().last().unwrap_or("")
                    );
                    if is_good { line } else { format!("WRONG {line}") }
                })
            })
            .collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    })
}

#[test]
fn a_server_that_falls_silent_at_any_step_does_not_hold_its_client() {
    use Step::*;
    all_silences(&[Tls, Hello, Opened, Stream, Want, Ack, Settle, Finish, Receipt, Never], false);
}

#[test]
fn a_server_that_falls_silent_at_any_step_of_a_pull_does_not_hold_its_client() {
    use Step::*;
    all_silences(
        &[Tls, Hello, Opened, Stream, Offer, OfferEnd, Data, HalfTheData, Seal, Receipt, Never],
        true,
    );
}
