//! `frames pull --hub DIR`: killed, begun twice over one directory, and with a full disk under it.

use crate::support::job::{Ran, Running, with};
use crate::support::volume::{self, Volume};
use crate::support::{Scratch, noise, wait_until};
use crate::{LIMIT, how, os, push_all, small};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use thalweg_client::frames::{ChannelWishes, HeldLevel, Sender, SenderWishes};
use thalweg_mover::link::ticket::Ticket;

const BYTES: usize = 100_000;

/// The command with a hub in this directory.
fn pull(scratch: &Scratch, channel: &str, to: &str, hub: &Path, more: &[&str]) -> std::process::Command {
    let command = with(scratch.thalweg(), ["frames", "pull", channel, to, "--json", "--hub"]);
    with(with(command, [hub]), more)
}

/// The ticket of a hub that has just begun: of another than `before`.
fn ticket_of(hub: &Path, before: Option<&Ticket>) -> (Ticket, PathBuf) {
    let path = hub.join("ticket");
    let read = || {
        Ticket::read(&path).ok().filter(|ticket| before.is_none_or(|before| before.server != ticket.server))
    };
    assert!(wait_until(LIMIT, || read().is_some()), "no ticket");
    (read().unwrap(), path)
}

fn place(ticket: &Ticket, channel: &str) -> String {
    format!("tw://{}/hub/{channel}", ticket.addresses[0])
}

fn sender(ticket: &Ticket, path: &Path, channel: &str, wishes: SenderWishes) -> Sender {
    let wishes = SenderWishes { producer: Some("cam".to_owned()), ..wishes };
    Sender::open(os(&place(ticket, channel)).as_os_str(), how(path), wishes).expect("a sender")
}

fn durable() -> SenderWishes {
    let channel = ChannelWishes { is_recorded: true, ..ChannelWishes::default() };
    SenderWishes { channel, level: HeldLevel::Durable, ..SenderWishes::default() }
}

#[test]
fn a_hub_of_a_consumer_that_is_killed_loses_nothing_that_was_durable_and_leaves_no_ticket_that_leads_nowhere()
{
    let scratch = Scratch::new();
    let (hub, got) = (scratch.path("hub"), scratch.path("got"));
    let begin = || {
        let pull = pull(&scratch, "scan", got.to_str().unwrap(), &hub, &["--record", "--every", "1"]);
        Running::start(pull)
    };
    let first = begin();
    let (before, path) = ticket_of(&hub, None);
    let maker = sender(&before, &path, "scan", durable());
    push_all(&maker, "cam", 0, 20, BYTES);
    assert!(wait_until(LIMIT, || maker.figures().waiting == 0), "all of it is durable");
    first.kill();
    maker.abort();
    // What one leaves that is killed while it writes its ticket.
    std::fs::write(hub.join(".ticket.0123456789abcdef"), b"half").unwrap();
    let second = begin();
    let (now, path) = ticket_of(&hub, Some(&before));
    assert!(!hub.join(".ticket.0123456789abcdef").exists());
    // Under its name it goes on behind what is durable.
    let maker = sender(&now, &path, "scan", durable());
    push_all(&maker, "cam", 20, 30, BYTES);
    maker.finish(Some(LIMIT)).expect("an end");
    let ended = second.end(LIMIT).expect(0);
    assert_eq!((ended.number("frames"), &ended.finished()["lost"]), (30, &serde_json::json!({})));
    assert!(!path.exists(), "the ticket goes with the hub");
}

#[test]
fn what_a_hub_that_was_killed_had_spilled_for_its_own_memory_is_removed_by_the_next() {
    let scratch = Scratch::new();
    let hub = scratch.path("hub");
    let first = Running::start(pull(&scratch, "one", "null:", &hub, &["--policy", "spill"]));
    let (before, _) = ticket_of(&hub, None);
    let left = hub.join("spill/one.frames");
    assert!(wait_until(LIMIT, || left.join("lock").exists()));
    first.kill();
    std::fs::write(left.join("0000000000000000.spill"), noise(1, 5000)).unwrap();
    // What is recorded is not its to remove, nor what it does not know.
    for name in ["kept", "strange"] {
        std::fs::create_dir(hub.join(format!("spill/{name}.frames"))).unwrap();
        std::fs::write(hub.join(format!("spill/{name}.frames/lock")), b"").unwrap();
    }
    std::fs::write(hub.join("spill/kept.frames/recorded"), b"").unwrap();
    std::fs::write(hub.join("spill/strange.frames/mine"), b"mine").unwrap();
    let second = Running::start(pull(&scratch, "two", "null:", &hub, &[]));
    ticket_of(&hub, Some(&before));
    assert!(!left.exists());
    assert!(
        hub.join("spill/kept.frames/recorded").exists() && hub.join("spill/strange.frames/mine").exists()
    );
    second.kill();
}

#[test]
fn a_second_hub_over_the_same_directory_is_refused_and_the_first_goes_on() {
    let scratch = Scratch::new();
    let hub = scratch.path("hub");
    let first = Running::start(pull(&scratch, "scan", "null:", &hub, &[]));
    let (ticket, path) = ticket_of(&hub, None);
    for channel in ["scan", "other"] {
        let second = Running::start(pull(&scratch, channel, "null:", &hub, &[])).end(LIMIT).expect(3);
        assert!(second.stderr.contains("another `frames pull --hub` has "), "{}", second.stderr);
    }
    assert_eq!(Ticket::read(&path).unwrap().server, ticket.server, "its ticket is still the first one's");
    let maker = sender(&ticket, &path, "scan", SenderWishes::default());
    push_all(&maker, "cam", 0, 5, 1000);
    maker.finish(Some(LIMIT)).expect("an end");
    assert_eq!(first.end(LIMIT).expect(0).number("frames"), 5);
}

#[test]
fn a_full_disk_under_a_hub_of_ones_own_holds_producers_up_is_told_and_loses_nothing() {
    if !volume::can_mount("a hub of one's own on a full disk") {
        return;
    }
    let scratch = Scratch::new();
    let volume = Volume::in_memory(scratch.root(), "full", "size=4m");
    let hub = volume.path.join("hub");
    let ballast = volume.path.join("ballast");
    // Without room for a ticket there is no hub, and that is said at once.
    assert!(std::fs::write(&ballast, vec![1; 8 << 20]).is_err(), "it is full");
    let refused: Ran = Running::start(pull(&scratch, "scan", "null:", &hub, &[])).end(LIMIT);
    assert_eq!(refused.code, Some(6), "{}", refused.stderr);
    std::fs::remove_file(&ballast).unwrap();
    // A consumer that does not read what it is given: a megabyte in memory, four on the disk, and then nothing more.
    let (mut taken, given) = std::io::pipe().unwrap();
    let more = ["--policy", "spill", "--memory", "1MiB", "--window", "400000"];
    let mut pull = pull(&scratch, "scan", "-", &hub, &more);
    pull.stdin(Stdio::null()).stdout(given);
    let (job, _) = Running::start_as(pull);
    let (ticket, path) = ticket_of(&hub, None);
    let frames = 100;
    let wishes = SenderWishes { window_bytes: 400_000, channel: small(1 << 20), ..SenderWishes::default() };
    let maker = sender(&ticket, &path, "scan", wishes);
    let content = std::thread::scope(|scope| {
        let pushed = scope.spawn(|| {
            push_all(&maker, "cam", 0, frames, BYTES);
            maker.finish(Some(LIMIT)).expect("an end")
        });
        let says = |text: &str| job.said().iter().any(|(_, line)| line.contains(text));
        assert!(
            wait_until(LIMIT, || says("the spill log cannot be written, producers wait: ")),
            "it is told"
        );
        assert!(maker.figures().frames < frames, "they are held up");
        let mut content = Vec::new();
        taken.read_to_end(&mut content).unwrap();
        pushed.join().expect("no panic");
        content
    });
    let ended = job.end(LIMIT);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let wanted: Vec<u8> = (0..frames).flat_map(|sequence| crate::content("cam", sequence, BYTES)).collect();
    assert!(content == wanted, "{} bytes of {}", content.len(), wanted.len());
}
