//! Clients that would have more of a daemon than there is for them.

use super::sessions::served;
use super::*;
use thalweg_service::accept::Listening;
use thalweg_service::sessions::HostLimits;

/// A daemon that keeps at most so many bytes for its clients, and one of those at 127.0.0.`last`.
fn served_with_memory(scratch: &Scratch, bytes: usize) -> (Listening, impl Fn(u8) -> HostileClient) {
    let limits = HostLimits { held_bytes_max: bytes, ..HostLimits::default() };
    let (listening, identity, _, server) = served(scratch, limits);
    let (address, pem) = (listening.addresses[0].to_string(), identity.to_pem());
    let from = move |last| {
        let from = std::net::IpAddr::from([127, 0, 0, last]);
        let identity = Identity::from_pem(&pem).unwrap();
        HostileClient::begin_from(identity, server.fingerprint(), &address, Some(from))
    };
    (listening, from)
}

#[test]
fn who_has_a_daemon_keep_more_in_memory_than_its_share_loses_the_session_and_others_go_on() {
    let scratch = Scratch::new();
    let (listening, from) = served_with_memory(&scratch, 16 << 20);
    let trial = || push_trial("data", "x", PushTrial::Null);
    let (mut honest, mut greedy) = (from(2), from(1));
    honest.open(trial()).expect("a trial");
    greedy.open(trial()).expect("a trial");
    // Files with long names, whose content never comes; far fewer than one transfer may have under way.
    for batch in 0..100 {
        let named = |id: u64| file(id, &format!("{id:0250}"), 5);
        if !greedy.line.tell(T::Offer((batch * 500..(batch + 1) * 500).map(named).collect())) {
            break;
        }
    }
    assert!(greedy.line.is_ended(AT_ONCE), "it goes on");
    offer_and_hear_want(&mut honest, vec![file(0, "small", 5)]);
    listening.stop();
}

/// What stands there is listed for each transfer that looks for other names, and kept as long as that is open.
#[test]
fn who_has_a_daemon_list_more_than_there_is_memory_for_loses_the_session_and_others_go_on() {
    let scratch = Scratch::in_memory();
    let (listening, from) = served_with_memory(&scratch, 1 << 20);
    // 2 MB with their names.
    std::fs::create_dir(scratch.path("export/into")).unwrap();
    for number in 0..8000 {
        let file = std::fs::File::create(scratch.path(&format!("export/into/{number:0200}"))).unwrap();
        file.set_len(128 << 10).unwrap();
    }
    let (mut honest, mut greedy) = (from(2), from(1));
    honest.open(push_trial("data", "x", PushTrial::Null)).expect("a trial");
    let request = Request::Push(Push::to(place("data", "into")));
    let terms = Terms { finds_renames: true, ..terms() };
    greedy.open(Open::of(TransferNumber(1), request, terms)).expect("a push");
    greedy.line.tell(T::Offer(vec![directory(0, ""), file(1, "lacking", 128 << 10)]));
    assert!(greedy.line.is_ended(AT_ONCE), "it goes on");
    offer_and_hear_want(&mut honest, vec![file(0, "small", 5)]);
    listening.stop();
}

/// Each of them takes far more when it is compiled than it has letters.
#[test]
fn who_has_a_daemon_keep_more_patterns_than_there_is_memory_for_loses_the_session_and_others_go_on() {
    use thalweg_mover::filter::Filter;
    use thalweg_wire::message::FilterRule;
    let scratch = Scratch::in_memory();
    let (listening, from) = served_with_memory(&scratch, 16 << 20);
    let letters: String = (' '..='~').filter(|letter| !"*?[\\/".contains(*letter)).collect();
    let rule = || FilterRule { include: false, pattern: format!("?{letters}") };
    let one = Filter::new(vec![rule()]).unwrap().bytes();
    let filter: Vec<FilterRule> = (0..(6 << 20) / one).map(|_| rule()).collect();
    let into = |number: u16, filter: &[FilterRule]| {
        let push = Push { filter: filter.to_vec(), ..Push::to(place("data", &number.to_string())) };
        let terms = Terms { job_key: [number.to_le_bytes()[0]; 16], ..terms() };
        Open::of(TransferNumber(number), Request::Push(push), terms)
    };
    let of = |number: u16| {
        let pull = Pull { filter: filter.clone(), ..Pull::of(vec![place("data", "")]) };
        Open::of(TransferNumber(number), Request::Pull(pull), terms())
    };
    let (mut honest, mut greedy) = (from(2), from(1));
    honest.open(push_trial("data", "x", PushTrial::Null)).expect("a trial");
    // Two of each are within bounds by themselves.
    let opens = [into(1, &filter), of(2), into(3, &filter), of(4)];
    let refused = opens.into_iter().find_map(|open| greedy.open(open).err());
    assert!(greedy.line.is_ended(AT_ONCE), "it goes on: {refused:?}");
    offer_and_hear_want(&mut honest, vec![file(0, "small", 5)]);
    listening.stop();
}

/// Each of them asked whether there was room before any of the others had taken it.
#[test]
fn of_those_who_come_at_the_same_time_no_more_are_let_in_than_may_be_there() {
    use std::sync::Barrier;
    const CLIENTS: usize = 24;
    let scratch = Scratch::new();
    let limits = HostLimits { sessions: 1, sessions_per_address: 1, ..HostLimits::default() };
    let (listening, identity, _, server) = served(&scratch, limits);
    let address = listening.addresses[0].to_string();
    // Their handshakes are over.
    let connections: Vec<_> =
        (0..CLIENTS).map(|_| secure(&identity, server.fingerprint(), &address)).collect();
    let together = &Barrier::new(CLIENTS);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let say = |mut connection: thalweg_mover::link::Connection| {
            scope.spawn(move || {
                together.wait();
                let answer = connection.hello(&Hello::new(Purpose::Control, CIPHER), SOON).map(drop);
                // Whoever is let in stays.
                (answer, connection)
            })
        };
        let threads: Vec<_> = connections.into_iter().map(say).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refused = answers.iter().filter_map(|(answer, _)| answer.as_ref().err());
    let kinds: Vec<FailureKind> = refused.map(|failure| failure.kind).collect();
    assert_eq!(kinds, [FailureKind::Busy; CLIENTS - 1]);
    listening.stop();
}
