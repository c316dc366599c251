//! Clients that have a daemon keep more in memory for them than there is.

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
