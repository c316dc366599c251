//! Connections of people whom nobody knows, while somebody honest works. Row R-1 of docs/faults.md, promise 26
//! of SPEC.md.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::chance::{in_time, say};
use support::job::{Running, with};
use support::{Scratch, noise, wait_until};

/// What an unauthenticated connection may cost, and what the allocator keeps for itself whatever comes.
const STRANGER_BYTES: u64 = 64 << 10;
const CONSTANT_BYTES: u64 = 48 << 20;
/// From accept to cut, in total; and what a busy machine takes.
const CUT_AFTER: Duration = Duration::from_secs(10);
const SLACK: Duration = Duration::from_secs(5);

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The first flight of a TLS 1.3 client, whole: recorded from one of ours.
fn client_hello() -> Vec<u8> {
    use thalweg_mover::link::{Connection, Identity, ServerTrust, client_config};
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let identity = Identity::generate("stranger").unwrap();
    let tls = client_config(&identity, &ServerTrust::Pinned(identity.fingerprint())).unwrap();
    let dialling =
        std::thread::spawn(move || drop(Connection::connect(ours.into(), tls, Duration::from_secs(1))));
    let mut bytes = vec![0; 16 << 10];
    let mut theirs = theirs;
    let read = theirs.read(&mut bytes).unwrap();
    bytes.truncate(read);
    drop(theirs);
    dialling.join().unwrap();
    bytes
}

/// How somebody behaves who is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Silent,
    Drips,
    Garbage,
    HelloThenSilence,
    HugeClaim,
}

const KINDS: [Kind; 5] = [Kind::Silent, Kind::Drips, Kind::Garbage, Kind::HelloThenSilence, Kind::HugeClaim];

/// Whether the other side has ended the connection.
fn is_cut(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn r1_five_hundred_strangers_cost_little_and_are_cut_while_an_honest_client_copies() {
    const STRANGERS: usize = 500;
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("export")).unwrap();
    std::fs::create_dir(scratch.path("from")).unwrap();
    for at in 0..50u64 {
        std::fs::write(scratch.path(&format!("from/{at}")), noise(at, 200_000)).unwrap();
    }
    let mut daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let address = daemon.address();
    let honest = |to: &str| {
        let job = with(with(scratch.thalweg(), ["cp", "--quiet", "--ticket"]), [&daemon.ticket]);
        let job = with(with(job, [scratch.path("from/")]), [daemon.place("data", to)]);
        Running::start(job).end(Duration::from_secs(300)).expect(0).took
    };
    let alone = honest("alone");
    let (resident, fds) = (resident_bytes(daemon.pid()), descriptors(daemon.pid()));

    let hello = client_hello();
    let garbage = noise(1, 2000);
    // A handshake record that says it is as long as records can be, and comes no further.
    let huge = [&[22, 3, 1, 0x40, 0x00][..], &vec![1; 9000]].concat();
    let mut strangers: Vec<(Kind, TcpStream, Instant, Option<Duration>)> = Vec::new();
    for at in 0..STRANGERS {
        let kind = KINDS[at % KINDS.len()];
        let mut stream = TcpStream::connect(&address).expect("a connection");
        let _ = match kind {
            Kind::Silent | Kind::Drips => Ok(()),
            Kind::Garbage => stream.write_all(&garbage),
            Kind::HelloThenSilence => stream.write_all(&hello),
            Kind::HugeClaim => stream.write_all(&huge),
        };
        stream.set_nonblocking(true).unwrap();
        strangers.push((kind, stream, Instant::now(), None));
    }
    // And a pile of those that come and go.
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, pile_address) = (stop.clone(), address.clone());
    let pile = std::thread::spawn(move || {
        let mut piled = 0;
        while !stopped.load(Ordering::Relaxed) {
            drop(TcpStream::connect(&pile_address));
            piled += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
        piled
    });
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident_bytes(daemon.pid()).saturating_sub(resident);

    let beside = std::thread::scope(|scope| {
        let copying = scope.spawn(|| honest("beside"));
        let mut dripped_at = Instant::now();
        while strangers.iter().any(|(.., cut)| cut.is_none())
            && strangers.iter().any(|(_, _, since, _)| since.elapsed() < CUT_AFTER + 10 * SLACK)
        {
            let drips = dripped_at.elapsed() >= Duration::from_secs(1);
            if drips {
                dripped_at = Instant::now();
            }
            for (kind, stream, since, cut) in strangers.iter_mut().filter(|(.., cut)| cut.is_none()) {
                if drips && *kind == Kind::Drips {
                    let second = (since.elapsed().as_secs() as usize).min(hello.len() - 1);
                    let _ = stream.write_all(&hello[second..=second]);
                }
                if is_cut(stream) {
                    *cut = Some(since.elapsed());
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        copying.join().unwrap()
    });
    stop.store(true, Ordering::Relaxed);
    let piled = pile.join().unwrap();
    for kind in KINDS {
        let cuts: Vec<_> = strangers.iter().filter(|(k, ..)| *k == kind).map(|(.., cut)| *cut).collect();
        let longest = cuts.iter().flatten().max().copied().unwrap_or_default();
        let left = cuts.iter().filter(|cut| cut.is_none()).count();
        say(&format!(
            "R-1: {kind:?}: {} cut, the last after {:.1} s, {left} left",
            cuts.len() - left,
            longest.as_secs_f64()
        ));
        assert_eq!(left, 0, "{kind:?}: not cut after {:?}", CUT_AFTER + 10 * SLACK);
        assert!(in_time("R-1", longest, CUT_AFTER + SLACK), "{kind:?}: {longest:?}");
    }
    say(&format!(
        "R-1: {STRANGERS} strangers and {piled} that came and went: the honest copy {:.2} s beside, {:.2} s alone; \
         {} KiB grown, {} each",
        beside.as_secs_f64(),
        alone.as_secs_f64(),
        grown >> 10,
        (grown >> 10) / STRANGERS as u64,
    ));
    let allowed = STRANGERS as u64 * STRANGER_BYTES + CONSTANT_BYTES;
    assert!(grown <= allowed, "{grown} bytes grown, {allowed} allowed");
    drop(strangers);
    let is_back = wait_until(Duration::from_secs(60), || descriptors(daemon.pid()) <= fds + 4);
    assert!(is_back, "{} descriptors, {fds} before", descriptors(daemon.pid()));
    assert!(daemon.is_alive());
    assert!(!scratch.server_log().contains("panicked"), "{}", scratch.server_log());
}
