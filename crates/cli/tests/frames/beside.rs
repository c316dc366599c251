//! Consumers in the process of their hub: the same as over a link.

use super::*;
use crate::support::job::{Running, with};
use crate::support::wait_until;
use thalweg_client::frames::{Hub, HubWishes};
use thalweg_mover::failure::FailureKind;

const BYTES: usize = 100_000;
/// Of one channel, in memory.
const MEMORY: u64 = 1 << 20;

/// A hub of this process, and the place of a channel there.
fn hub_here(scratch: &Scratch) -> (Hub, OsString) {
    std::fs::create_dir(scratch.path("hub")).unwrap();
    let hub = Hub::start(&HubWishes::new(&scratch.path("hub"), &scratch.path("ticket"))).expect("a hub");
    let place = hub.place("scan").unwrap();
    (hub, place)
}

fn receiver_here(scratch: &Scratch, place: &OsString, wishes: ReceiverWishes) -> Receiver {
    Receiver::open(place, how(&scratch.path("ticket")), wishes).expect("a receiver")
}

fn sender_to(scratch: &Scratch, place: &OsString) -> Sender {
    let wishes =
        SenderWishes { producer: Some("m".into()), window_bytes: 400_000, ..SenderWishes::default() };
    Sender::open(place, how(&scratch.path("ticket")), wishes).expect("a sender")
}

fn slow_by(policy: FramePolicy) -> ReceiverWishes {
    ReceiverWishes { window_bytes: 400_000, channel: small(MEMORY), ..by(policy) }
}

#[test]
fn each_policy_holds_for_a_consumer_beside_its_hub() {
    for policy in [
        FramePolicy::Block,
        FramePolicy::Spill,
        FramePolicy::DropOldest { depth: 0 },
        FramePolicy::LatestOnly,
    ] {
        let scratch = Scratch::new();
        let (hub, place) = hub_here(&scratch);
        let taker = receiver_here(&scratch, &place, slow_by(policy));
        let maker = sender_to(&scratch, &place);
        let frames = 60;
        match policy {
            // It takes nothing, and memory holds ten of them.
            FramePolicy::Block => {
                let room = (0..frames)
                    .find(|&n| maker.push(frame("m", n, BYTES), Some(Duration::from_millis(200))).is_err());
                let room = room.expect("the producer is held up");
                assert!(room < 30, "{room} frames had room");
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        push_all(&maker, "m", room, frames, BYTES);
                        maker.finish(Some(LIMIT)).unwrap();
                    });
                    let got = drain(&taker, BYTES);
                    assert_eq!((got.count("m"), got.lost.len()), (frames, 0));
                });
            }
            _ => {
                push_all(&maker, "m", 0, frames, BYTES);
                maker.finish(Some(LIMIT)).unwrap();
                let got = drain(&taker, BYTES);
                assert_eq!(got.count("m") + got.lost_frames(), frames, "{policy:?}");
                assert_eq!(got.delivered["m"].last(), Some(&(frames - 1)), "{policy:?}");
                assert_eq!(got.lost.is_empty(), policy == FramePolicy::Spill, "{policy:?}: {:?}", got.lost);
            }
        }
        assert_eq!(taker.figures().outages, 0);
        hub.stop();
    }
}

#[test]
fn one_beside_the_hub_and_one_behind_a_link_get_the_same() {
    let scratch = Scratch::new();
    let (hub, place) = hub_here(&scratch);
    let here = receiver_here(&scratch, &place, ReceiverWishes::default());
    let (there, got) = (place.to_str().unwrap(), scratch.path("got"));
    let pull = with(command(&scratch, "pull"), [there, got.to_str().unwrap(), "--json"]);
    let pull = Running::start(pull);
    assert!(wait_until(LIMIT, || status(&scratch, there)["consumers"]
        .as_array()
        .is_some_and(|all| all.len() == 2)));
    let maker = sender_to(&scratch, &place);
    push_all(&maker, "m", 0, 40, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    let beside = drain(&here, BYTES);
    assert_eq!((beside.count("m"), beside.lost.len()), (40, 0));
    assert_eq!(pull.end(LIMIT).expect(0).number("frames"), 40);
    hub.stop();
}

#[test]
fn members_of_a_group_beside_the_hub_share_each_frame_once() {
    let scratch = Scratch::new();
    let (hub, place) = hub_here(&scratch);
    let wishes = || ReceiverWishes { group: Some("g".into()), ..ReceiverWishes::default() };
    let members = [0, 1].map(|_| receiver_here(&scratch, &place, wishes()));
    let maker = sender_to(&scratch, &place);
    let frames = 200;
    let mut taken: Vec<u64> = std::thread::scope(|scope| {
        let takers = members.each_ref().map(|member| {
            scope.spawn(|| {
                let mut taken = Vec::new();
                while let Some(delivery) = member.next(Some(LIMIT)).unwrap() {
                    match delivery {
                        Delivery::Frame(frame) => taken.push(frame.sequence),
                        Delivery::End(_) => break,
                        _ => {}
                    }
                }
                taken
            })
        });
        push_all(&maker, "m", 0, frames, 1000);
        maker.finish(Some(LIMIT)).unwrap();
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    taken.sort_unstable();
    assert_eq!(taken, (0..frames).collect::<Vec<_>>());
    hub.stop();
}

#[test]
fn a_consumer_beside_its_hub_that_leaves_holds_up_nobody() {
    let scratch = Scratch::new();
    let (hub, place) = hub_here(&scratch);
    let leaves = receiver_here(&scratch, &place, slow_by(FramePolicy::Block));
    let stays = receiver_here(&scratch, &place, slow_by(FramePolicy::Block));
    let maker = sender_to(&scratch, &place);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            push_all(&maker, "m", 0, 60, BYTES);
            maker.finish(Some(LIMIT)).unwrap();
        });
        assert!(leaves.next(Some(LIMIT)).unwrap().is_some());
        leaves.close();
        assert_eq!(drain(&stays, BYTES).count("m"), 60);
    });
    hub.stop();
}

#[test]
fn a_consumer_hears_that_the_hub_of_its_process_was_stopped() {
    let scratch = Scratch::new();
    let (hub, place) = hub_here(&scratch);
    let taker = receiver_here(&scratch, &place, ReceiverWishes::default());
    assert_eq!(taker.next(Some(Duration::ZERO)).unwrap(), None);
    hub.stop();
    let failure = taker.next(Some(LIMIT)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
}

#[test]
fn one_beside_its_hub_goes_on_under_its_name_behind_what_it_took() {
    let scratch = Scratch::new();
    let (hub, place) = hub_here(&scratch);
    let wishes = || ReceiverWishes { name: Some("calib".into()), ..slow_by(FramePolicy::Block) };
    let maker = sender_to(&scratch, &place);
    let first = receiver_here(&scratch, &place, wishes());
    push_all(&maker, "m", 0, 3, BYTES);
    let mut got = Got::default();
    for _ in 0..2 {
        got.take(first.next(Some(LIMIT)).unwrap().expect("a frame"), BYTES);
    }
    drop(first);
    let second = receiver_here(&scratch, &place, wishes());
    push_all(&maker, "m", 3, 5, BYTES);
    maker.finish(Some(LIMIT)).unwrap();
    let got = got.to_the_end(&second, BYTES);
    assert_eq!((got.count("m"), got.lost.len()), (5, 0));
    assert!(second.has_gone_on());
    hub.stop();
}

#[test]
fn the_place_of_one_beside_its_hub_is_kept_for_as_long_as_it_asked() {
    let scratch = Scratch::new();
    let (hub, place) = hub_here(&scratch);
    let keep = Duration::from_millis(200);
    let wishes = ReceiverWishes { name: Some("calib".into()), keep, ..ReceiverWishes::default() };
    drop(receiver_here(&scratch, &place, wishes));
    let there = place.to_str().unwrap();
    assert!(wait_until(LIMIT, || status(&scratch, there)["consumers"] == serde_json::json!([])));
    hub.stop();
}
