//! Sessions of two clients that have no server: links, requests, questions, ends.

use super::*;
use crate::endpoint::synthetic::NoiseSource;
use crate::event;
use crate::link::testing::{LONG, connected, our_client_config, our_server_config, unix_pair};
use crate::link::{Connection, Fingerprint, Token, TokenSource};
use crate::run::Ended;
use crate::run::party::Party;
use crate::run::sender::SendRun;
use crate::transfer::sender;
use std::cell::Cell;
use thalweg_wire::hello::{Answer, ServerHello};
use thalweg_wire::message::{Place, Pull, Request};

struct Nowhere;

impl Connect for Nowhere {
    fn connect(&self, _: Duration) -> Result<std::os::fd::OwnedFd> {
        Err(Failure::new(FailureKind::Connection, CONNECT, "nowhere"))
    }

    fn name(&self) -> String {
        "nowhere".into()
    }
}

/// Hears of which streams the connection broke.
#[derive(Default)]
struct Blames(Mutex<Vec<u16>>);

impl Connect for Blames {
    fn connect(&self, _: Duration) -> Result<std::os::fd::OwnedFd> {
        Err(Failure::new(FailureKind::Connection, CONNECT, "nowhere"))
    }

    fn stream_lost(&self, stream: u16) {
        lock(&self.0).push(stream);
    }

    fn name(&self) -> String {
        "nowhere".into()
    }
}

#[test]
fn a_stream_whose_key_is_used_up_is_replaced_and_its_way_not_blamed() {
    let (blames, client) = (Arc::new(Blames::default()), without_a_link());
    let (mail, connect) = (Arc::new(Mail::default()), blames.clone());
    let owner = ClientOwner { mail: mail.clone(), connect, events: event::nobody() };
    let lost = |reason| Failure::new(FailureKind::Io, "send", "it ended").because(reason);
    owner.on_stream_lost(&client.session, 1, &lost(Reason::KeyUsedUp));
    assert!(lock(&mail.boxes).knocked, "it is dialled at once");
    owner.on_stream_lost(&client.session, 2, &lost(Reason::Other));
    assert_eq!(*lock(&blames.0), [2]);
}

/// As a server that accepts a session, with the cipher that was asked for or with this one, until the client ends it.
fn welcome(theirs: std::os::fd::OwnedFd, cipher: Option<Cipher>) {
    let mut connection = Connection::accept(theirs, our_server_config(), LONG).unwrap();
    let hello = connection.read_hello(LONG).unwrap();
    let answer = ServerHello {
        version: limits::VERSION_MAX,
        versions: hello.versions,
        answer: Answer::Accepted,
        cipher: cipher.unwrap_or(hello.cipher),
        features: 0,
        session: [9; 16],
        system: System::default(),
    };
    connection.answer(&answer, LONG).unwrap();
    let _ = connection.read_exact(&mut vec![0; 1 << 20], LONG);
}

/// Connections ride in a login that takes longer than a dial may.
struct SlowLogin;

impl Connect for SlowLogin {
    fn connect(&self, deadline: Duration) -> Result<std::os::fd::OwnedFd> {
        std::thread::sleep(deadline + Duration::from_millis(100));
        let (ours, theirs) = unix_pair();
        std::thread::spawn(move || {
            // A client without time does not wait for that.
            std::thread::sleep(Duration::from_millis(100));
            welcome(theirs, None);
        });
        Ok(ours)
    }

    fn is_carried(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        "slow".into()
    }
}

#[test]
fn a_login_that_carries_a_connection_takes_none_of_the_time_of_what_comes_after_it() {
    let settings = LinkSettings { stall_timeout: Duration::from_secs(2), ..LinkSettings::default() };
    let (connect, tls) = (Arc::new(SlowLogin), our_client_config());
    Client::connect(connect, tls, settings, event::nobody()).map(drop).unwrap();
}

/// Its server answers every hello with sealed frames.
struct Sealing;

impl Connect for Sealing {
    fn connect(&self, _: Duration) -> Result<std::os::fd::OwnedFd> {
        let (ours, theirs) = unix_pair();
        std::thread::spawn(move || welcome(theirs, Some(Cipher::Aes128Gcm)));
        Ok(ours)
    }

    fn name(&self) -> String {
        "sealing".into()
    }
}

#[test]
fn a_server_that_chooses_another_cipher_than_was_asked_for_is_left() {
    let connect = |cipher| {
        let settings = LinkSettings { cipher, ..LinkSettings::default() };
        Client::connect(Arc::new(Sealing), our_client_config(), settings, event::nobody())
    };
    connect(Cipher::Aes128Gcm).map(drop).unwrap();
    for (cipher, word) in [(Cipher::Tls, "tls"), (Cipher::Aes256Gcm, "aes256")] {
        let refused = connect(cipher).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Protocol, "{refused}");
        assert!(
            refused.cause.contains(&format!("the cipher aes128 where {word} was asked for")),
            "{refused}"
        );
    }
}

/// Stands for a server: takes what clients say, and does nothing of it.
struct Server;

impl Owner for Server {
    fn on_message(&self, _: &Arc<Session>, _: Message) {}
    fn on_link_lost(&self, _: &Arc<Session>, _: &Failure) {}
    fn on_goodbye(&self, _: &Arc<Session>, _: Option<&Failure>) {}
    fn on_stream_lost(&self, _: &Arc<Session>, _: u16, _: &Failure) {}
}

/// A client of a session that has no link.
pub(in super::super) fn without_a_link() -> Client {
    let mail = Arc::new(Mail::default());
    let connect: Arc<dyn Connect> = Arc::new(Nowhere);
    let owner = ClientOwner { mail: mail.clone(), connect, events: event::nobody() };
    of_session(Box::new(owner), mail)
}

/// What stands for its server.
pub(in super::super) fn server_without_a_link() -> Client {
    of_session(Box::new(Server), Arc::new(Mail::default()))
}

fn of_session(owner: Box<dyn Owner>, mail: Arc<Mail>) -> Client {
    let session = Session::new(
        [1; 16],
        [2; 32].into(),
        Cipher::Aes128Gcm,
        Fingerprint([3; 32]),
        ControlLimits::default(),
        owner,
        event::nobody(),
    );
    Client {
        session: session.unwrap(),
        rtt: Duration::ZERO,
        system: System::default(),
        name: "nowhere".into(),
        connect: Arc::new(Nowhere),
        has_failed: AtomicBool::new(false),
        answer_timeout: Duration::from_secs(1),
        mail,
    }
}

/// A new link of both, in the place of that which was.
pub(in super::super) fn link(client: &Client, server: &Client) {
    let (ours, theirs) = connected(unix_pair());
    client.session.attach_control(ours).unwrap();
    server.session.attach_control(theirs).unwrap();
}

/// The kernel has our goodbye then. However often it is closed: whoever shares it may close it, and does when it goes.
#[test]
fn the_goodbye_of_a_peer_is_not_waited_for_where_it_is_far_and_all_went_well() {
    let client_of = |rtt: Duration, has_failed: bool| {
        let mut client = without_a_link();
        client.rtt = rtt;
        client.connect = Arc::new(TcpConnect::new(vec!["192.0.2.1:9".into()]));
        client.has_failed = AtomicBool::new(has_failed);
        let (ours, theirs) = connected(unix_pair());
        client.session.attach_control(ours).unwrap();
        (client, theirs)
    };
    let (client, mut theirs) = client_of(early::FAR, false);
    let since = Instant::now();
    client.close();
    client.close();
    assert!(client.session.has_links() && since.elapsed() < GOODBYE_TIMEOUT);
    drop(client);
    let mut said = [0; 64];
    let end =
        (0..said.len()).find_map(|at| theirs.read_exact(&mut said[at..=at], LONG).err().map(|why| (at, why)));
    let (bytes, why) = end.expect("an end");
    assert!(bytes > 4 && why.kind == FailureKind::Connection, "{bytes}: {why}");
    for (rtt, has_failed) in [(early::FAR, true), (Duration::ZERO, false)] {
        let (client, theirs) = client_of(rtt, has_failed);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(theirs);
        });
        client.close();
        assert!(!client.session.has_links(), "{rtt:?}");
    }
}

fn request(number: u16) -> Open {
    let request = Request::Pull(Pull::of(vec![Place { export: None, path: b"x".to_vec() }]));
    Open::of(TransferNumber(number), request, Terms::of(1 << 20, 1 << 20))
}

#[test]
fn an_answer_does_not_go_on_over_another_link_behind_a_gap() {
    let (client, server) = (without_a_link(), server_without_a_link());
    link(&client, &server);
    let mut answers = client.ask(Question::About).unwrap();
    let number = answers.number;
    let say = |reply| server.session.say(Message::Reply { number, reply }).unwrap();
    say(Reply::Bytes(vec![1]));
    assert_eq!(answers.next(), Some(Ok(Reply::Bytes(vec![1]))));
    // The second piece went with the link.
    link(&client, &server);
    say(Reply::Bytes(vec![3]));
    say(Reply::End(None));
    let ended = answers.next().expect("it is not complete");
    assert_eq!(ended.unwrap_err().kind, FailureKind::Connection);
    assert!(answers.next().is_none());
}

#[test]
fn what_came_whole_before_the_link_was_lost_is_an_answer() {
    let (client, server) = (without_a_link(), server_without_a_link());
    link(&client, &server);
    let mut answers = client.ask(Question::About).unwrap();
    let number = answers.number;
    let say = |reply| server.session.say(Message::Reply { number, reply }).unwrap();
    say(Reply::Bytes(vec![1]));
    say(Reply::End(None));
    let until = Instant::now() + LONG;
    while !client.boxes().replies.is_empty() {
        assert!(Instant::now() < until, "the end does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
    link(&client, &server);
    assert_eq!(answers.next(), Some(Ok(Reply::Bytes(vec![1]))));
    assert_eq!(answers.next(), None);
}

#[test]
fn what_comes_just_before_the_link_is_lost_is_taken() {
    let (client, server) = (without_a_link(), server_without_a_link());
    link(&client, &server);
    let mut answers = client.ask(Question::About).unwrap();
    let number = answers.number;
    // Behind a look into the queue that found nothing.
    let comes = Cell::new(true);
    let piece = answers.piece(&|| {
        if comes.replace(false) {
            for reply in [Reply::Bytes(vec![1]), Reply::End(None)] {
                server.session.say(Message::Reply { number, reply }).unwrap();
            }
            let until = Instant::now() + LONG;
            while !client.boxes().replies.is_empty() {
                assert!(Instant::now() < until, "the end does not come");
                std::thread::sleep(Duration::from_millis(2));
            }
            link(&client, &server);
        }
        false
    });
    assert_eq!(piece, Some(Ok(Reply::Bytes(vec![1]))));
    assert_eq!(answers.next(), None);
}

#[test]
fn a_request_whose_link_is_replaced_is_not_waited_for() {
    let (mut client, server) = (without_a_link(), server_without_a_link());
    client.answer_timeout = LONG;
    link(&client, &server);
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| client.open(request(1), &|| false));
        let until = Instant::now() + LONG;
        while client.boxes().openings.is_empty() {
            assert!(Instant::now() < until, "it does not ask");
            std::thread::sleep(Duration::from_millis(2));
        }
        link(&client, &server);
        let failure = opening.join().unwrap().unwrap_err();
        assert!(failure.cause.starts_with("the link was lost"), "{failure}");
    });
}

#[test]
fn a_transfer_that_begins_in_an_outage_waits_for_the_link_and_ends_no_other() {
    let (mut client, server) = (without_a_link(), server_without_a_link());
    client.answer_timeout = LONG;
    let (client, server) = (&client, &server);
    let lost = Failure::new(FailureKind::Connection, "transfer", "cut off");
    link(client, server);
    client.session.drop_link(lost.clone());
    let waits = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = || {
            waits.store(true, Ordering::Release);
            false
        };
        let opening = scope.spawn(move || client.open(request(1), &looks));
        let until = Instant::now() + LONG;
        while !waits.load(Ordering::Acquire) {
            assert!(Instant::now() < until, "it does not wait");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(client.boxes().openings.is_empty(), "there is no link");
        link(client, server);
        while client.boxes().openings.is_empty() {
            assert!(Instant::now() < until, "it does not ask");
            std::thread::sleep(Duration::from_millis(2));
        }
        let opened = Opened::Push { is_ephemeral: false };
        server.session.say(Message::Opened(TransferNumber(1), opened)).unwrap();
        opening.join().unwrap().unwrap();
    });
    // A file system that does not answer.
    client.conclude(TransferNumber(1), Some(&lost));
    assert!(!client.session.is_closed());
    let epoch = client.session.epoch();
    for number in [2, 3] {
        client.boxes().opened_in.insert(TransferNumber(number), epoch);
    }
    client.boxes().openings.insert(TransferNumber(3), Opening::GivenUp);
    link(client, server);
    client.conclude(TransferNumber(2), Some(&lost));
    assert!(!client.session.is_closed(), "that it is open the server has said");
    client.conclude(TransferNumber(3), Some(&lost));
    assert!(client.session.is_closed(), "nobody knows what the server heard");
}

fn sender_at(session: &Session, number: TransferNumber) -> Arc<SendRun> {
    let terms = Terms::of(1 << 20, 1 << 20);
    let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
    let bounds = sender::Limits::for_path(&terms, None);
    SendRun::new(number, source, terms, bounds, session.outbox(), event::nobody())
}

#[test]
fn why_a_transfer_was_given_up_in_an_outage_is_told_when_that_is_over() {
    let (client, server) = (without_a_link(), server_without_a_link());
    link(&client, &server);
    let number = TransferNumber(1);
    let waits = sender_at(&server.session, number);
    server.session.add(number, waits.clone()).unwrap();
    let epoch = client.session.epoch();
    client.boxes().opened_in.insert(number, epoch);
    client.session.drop_link(Failure::new(FailureKind::Connection, "transfer", "cut off"));
    // Its own side never came to be.
    let full = Failure::new(FailureKind::Space, "write", "no space is left");
    client.conclude(number, Some(&full));
    link(&client, &server);
    let Some(Ended::Failed(why)) = waits.wait(LONG) else { panic!("it waits in vain") };
    assert_eq!(why, full);
}

/// It would wait for what went with the other link.
#[test]
fn a_transfer_is_not_added_to_another_link_than_that_on_which_it_was_opened() {
    let (client, server) = (without_a_link(), server_without_a_link());
    link(&client, &server);
    let epoch = client.session.epoch();
    let [first, second] = [1, 2].map(TransferNumber);
    for number in [first, second] {
        client.boxes().opened_in.insert(number, epoch);
    }
    client.add(first, sender_at(&client.session, first)).unwrap();
    link(&client, &server);
    let failure = client.add(second, sender_at(&client.session, second)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection);
    assert!(client.session.transfer(first).is_some() && client.session.transfer(second).is_none());
}

#[test]
fn what_is_given_up_before_it_was_asked_for_is_not_asked_for() {
    let (client, server) = (without_a_link(), server_without_a_link());
    link(&client, &server);
    let failure = client.open(request(1), &|| true).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Stopped);
    let boxes = client.boxes();
    assert!(boxes.openings.is_empty() && boxes.opened_in.is_empty());
}

#[test]
fn of_what_could_not_be_said_nothing_is_kept() {
    let client = without_a_link();
    assert!(client.ask(Question::About).is_err());
    assert!(client.boxes().replies.is_empty());
    assert!(client.open(request(1), &|| false).is_err());
    let boxes = client.boxes();
    assert!(boxes.openings.is_empty() && boxes.opened_in.is_empty());
}

#[test]
fn one_answer_is_taken_to_each_request_and_a_late_one_is_dropped() {
    let mut boxes = Boxes::default();
    let take = |boxes: &mut Boxes, number| {
        boxes.take_opened(TransferNumber(number), Opened::Push { is_ephemeral: false })
    };
    assert!(!take(&mut boxes, 1), "not asked for");
    boxes.openings.insert(TransferNumber(1), Opening::Awaited);
    boxes.openings.insert(TransferNumber(2), Opening::GivenUp);
    assert!(take(&mut boxes, 1));
    assert!(!take(&mut boxes, 1), "a second time");
    assert!(take(&mut boxes, 2));
    assert!(!boxes.openings.contains_key(&TransferNumber(2)), "nobody would fetch it");
}

#[test]
fn streams_that_stood_after_they_were_refused_are_not_held_against_a_later_refusal() {
    let (mut refusals, began) = (Refusals::default(), Instant::now());
    let no_memory = || failure::no_memory("none is left");
    assert!(refusals.note(began, 0, no_memory()));
    assert!(!refusals.note(began, 1, no_memory()));
    assert!(refusals.rests(began, 1) && !refusals.rests(began + REFUSED_PAUSE, 1));
    let late = began + REFUSED_PATIENCE + REFUSED_PAUSE;
    assert!(refusals.is_hopeless(late, 2).is_some());
    // A refusal may be heard before the dial that it is about is over.
    refusals.stand(began, &[0, 1]);
    assert!(refusals.is_hopeless(late, 2).is_some());
    refusals.stand(began + REFUSED_PAUSE, &[1]);
    assert!(refusals.is_hopeless(late, 2).is_none());
    refusals.note(late, 0, no_memory());
    assert!(refusals.is_hopeless(late + REFUSED_PATIENCE, 2).is_none());
    refusals.note(late, 1, no_memory());
    assert!(refusals.is_hopeless(late + REFUSED_PATIENCE, 2).is_some());
}

#[test]
fn what_the_peer_has_no_memory_for_is_said_to_be_there_whatever_it_calls_that() {
    let why = Failure::new(FailureKind::Space, "obtenir", "rien").because(Reason::NoMemory);
    let told = at_peer(why, "far:7");
    assert_eq!((&*told.operation, told.reason), ("get memory for a stream at far:7", Reason::NoMemory));
    let other = Failure::new(FailureKind::Space, failure::NO_MEMORY, "none is left");
    assert_eq!(at_peer(other.clone(), "far:7"), other);
}

#[test]
fn a_dial_that_fails_for_want_of_a_link_says_nothing_about_streams() {
    let mut dials = Dials::default();
    let failure = |cause: &str| Some(Failure::new(FailureKind::Connection, "add a stream", cause));
    assert!(!dials.note(failure("the session has no link"), false));
    assert!(dials.failed(Duration::from_secs(1)).is_none() && !dials.is_undialled());
    assert!(dials.note(failure("refused"), true), "the first of which it tells something");
    assert!(!dials.note(failure("refused"), true) && dials.is_undialled());
    assert!(dials.failed(Duration::from_secs(1)).is_some_and(|why| why.cause.contains("refused")));
    // One that stood, stood.
    dials.note(None, false);
    assert!(dials.failed(Duration::from_secs(1)).is_none() && !dials.is_undialled());
}

/// A token that stays what it is.
#[derive(Debug)]
struct Fixed(Token);

impl TokenSource for Fixed {
    fn token(&self) -> Result<Token> {
        Ok(self.0.clone())
    }

    fn issuers(&self) -> String {
        "`https://iam.example.org/`".to_owned()
    }

    fn source(&self) -> String {
        "`bt_u7`".to_owned()
    }
}

/// Reaches nobody, and has no token for them.
#[derive(Debug)]
struct Tokenless;

impl TokenSource for Tokenless {
    fn token(&self) -> Result<Token> {
        Err(Failure::new(FailureKind::Connection, CONNECT, "the provider is slow"))
    }

    fn issuers(&self) -> String {
        String::new()
    }

    fn source(&self) -> String {
        String::new()
    }
}

impl Connect for Tokenless {
    fn connect(&self, _: Duration) -> Result<std::os::fd::OwnedFd> {
        Err(Failure::new(FailureKind::Connection, CONNECT, "nowhere"))
    }

    fn tokens(&self) -> Option<Arc<dyn TokenSource>> {
        Some(Arc::new(Tokenless))
    }

    fn name(&self) -> String {
        "nowhere".into()
    }
}

#[test]
fn nobody_is_dialled_before_there_is_a_token_to_show_them() {
    let (connect, settings) = (Arc::new(Tokenless), LinkSettings::default());
    let failed = Client::connect(connect, our_client_config(), settings, event::nobody());
    assert_eq!(failed.err().map(|why| why.cause).as_deref(), Some("the provider is slow"));
}

#[test]
fn a_token_that_is_not_taken_where_another_was_is_not_shown_again() {
    let token = |text: &str| Token::from_bytes(text.as_bytes()).unwrap();
    let source: Arc<dyn TokenSource> = Arc::new(Fixed(token("new")));
    let dialler = Dialler {
        connect: Arc::new(TcpConnect::new(Vec::new()).showing(Some(source.clone()))),
        tls: our_client_config(),
        settings: LinkSettings::default(),
        events: event::nobody(),
        told_tls: AtomicBool::new(false),
        shown: Mutex::new(Some(token("old"))),
        refused: Mutex::default(),
        early: Early::default(),
    };
    // A peer that takes no token, and says what it was asked first.
    let dial = || {
        let (ours, theirs) = unix_pair();
        let peer = std::thread::spawn(move || {
            let mut connection = Connection::accept(theirs, our_server_config(), LONG).unwrap();
            let hello = connection.read_hello(LONG).unwrap();
            if hello.purpose == Purpose::Token {
                connection.read_token(&hello, LONG).unwrap();
                let answer = ServerHello {
                    version: limits::VERSION_MAX,
                    versions: hello.versions,
                    answer: Answer::TokenRefused,
                    cipher: hello.cipher,
                    features: 0,
                    session: [0; 16],
                    system: System::default(),
                };
                connection.answer(&answer, LONG).unwrap();
            }
            hello.purpose
        });
        let to_show = dialler.to_show().unwrap();
        (dialler.secure(ours, None, to_show, Instant::now() + LONG), peer)
    };
    let (refused, peer) = dial();
    let refused = refused.err().unwrap();
    assert_eq!(refused.reason, Reason::TokenNotTaken);
    assert!(refused.cause.contains("`bt_u7`"), "{refused}");
    assert_eq!(peer.join().unwrap(), Purpose::Token);
    // The session goes on by the other.
    let (connection, peer) = dial();
    let resume = Hello::new(Purpose::Resume, Cipher::Aes128Gcm);
    connection.unwrap().write_all(&resume.encode(), LONG).unwrap();
    assert_eq!(peer.join().unwrap(), Purpose::Resume);
    // Nobody is dialled to hear the same again.
    dialler.show_anew(&*source).unwrap();
}
