//! Clients that would have more of a daemon than there is for them.

use super::sessions::served;
use super::*;

/// Each of them takes far more when it is compiled than it has letters.
#[test]
fn who_has_a_daemon_keep_more_patterns_than_there_is_memory_for_loses_the_session_and_others_go_on() {
    use thalweg_mover::filter::Filter;
    use thalweg_service::sessions::HostLimits;
    use thalweg_wire::message::FilterRule;
    let scratch = Scratch::in_memory();
    let limits = HostLimits { held_bytes_max: 16 << 20, ..HostLimits::default() };
    let (listening, identity, _, server) = served(&scratch, limits);
    let (address, pem) = (listening.addresses[0].to_string(), identity.to_pem());
    let from = |last| {
        let from = std::net::IpAddr::from([127, 0, 0, last]);
        let identity = Identity::from_pem(&pem).unwrap();
        HostileClient::begin_from(identity, server.fingerprint(), &address, Some(from))
    };
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
    use thalweg_service::sessions::HostLimits;
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
