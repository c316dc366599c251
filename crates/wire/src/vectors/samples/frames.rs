//! Values about frames of detectors.

use super::{digest, within};
use crate::message::{
    ChannelStatus, ChannelTerms, ChannelWishes, ClockOffset, Consume, ConsumerAt, ConsumerStatus, FrameFrom,
    FrameHead, FramePolicy, FrameRole, FrameTerms, FramesMessage, GroupSet, HasOf, HeldLevel, HubStamp, Item,
    LossReason, LostRange, ProducerId, ProducerStatus, SetOver, TakenBefore,
};
use crate::spill::SpillRecord;
use crate::vectors::Sample;

/// File and offset of the sample records.
pub(in crate::vectors) const SPILL_AT: (u64, u64) = (3, 1 << 20);

fn producer() -> ProducerId {
    ProducerId::new("cam-1").expect("a name")
}

fn clock() -> ClockOffset {
    ClockOffset { offset_ns: -1_500_000, bound_ns: 40_000 }
}

fn head(stamp: Option<HubStamp>) -> FrameHead {
    FrameHead {
        producer: producer(),
        sequence: 1439,
        set: Some((7, 1439)),
        time_ns: 1_700_000_000_000_000_000,
        deadline_ns: Some(10_000_000),
        dtype: "<u2".into(),
        shape: vec![2048, 2048],
        metadata: b"{\"angle\": 0.5}".to_vec(),
        payload_bytes: 8 << 20,
        digest: digest(9),
        stamp,
    }
}

fn reasons() -> Vec<Sample<LossReason>> {
    each! { LossReason;
        LossReason::Dropped => "dropped": LossReason::Dropped;
        LossReason::Superseded => "superseded": LossReason::Superseded;
        LossReason::Forgotten => "forgotten": LossReason::Forgotten;
        LossReason::HubRestart => "hub restart": LossReason::HubRestart;
        LossReason::Damaged => "damaged": LossReason::Damaged;
    }
}

pub(in crate::vectors) fn items() -> Vec<Sample<Item>> {
    let stamp = Some(HubStamp { taken_ns: 1_700_000_000_000_100_000, clock: clock() });
    let lost = |reason| Item::Lost(LostRange { producer: producer(), first: 3, end: 300, reason });
    let mut all = each! { Item;
        Item::Frame(_) => "frame": Item::Frame(Box::new(head(None))),
            "frame of a hub": Item::Frame(Box::new(head(stamp)));
        Item::Lost(_) => "lost": lost(LossReason::Dropped);
        Item::SetOver(_) => "set over": Item::SetOver(SetOver { set: 7, frames: 1440, taken: 1439 });
        Item::ProducerOver { .. } => "producer over":
            Item::ProducerOver { producer: producer(), frames: 1440, is_gone: true };
        Item::End => "end": Item::End;
        Item::SetBegun { .. } => "set begun": Item::SetBegun { producer: producer(), set: 7, frames: 1440 };
        Item::GroupSet(_) => "group set": Item::GroupSet(GroupSet {
            over: SetOver { set: 7, frames: 1440, taken: 1439 },
            delivered: 1400,
            missing: vec![(0, 39), (300, 301)],
        });
        Item::ConsumerAt(_) => "consumer at": Item::ConsumerAt(ConsumerAt {
            consumer: [9; 16],
            group: None,
            positions: Some((300, 1 << 33)),
        }),
            "group left": Item::ConsumerAt(ConsumerAt {
                consumer: [0; 16],
                group: Some("workers".into()),
                positions: None,
            });
    };
    all.extend(within(reasons(), "lost", lost));
    all
}

pub(in crate::vectors) fn spill_records() -> Vec<Sample<SpillRecord>> {
    within(items(), "", |item| SpillRecord { position: 1 << 33, item })
}

pub(super) fn messages() -> Vec<Sample<FramesMessage>> {
    use FramesMessage as F;
    each! { F;
        F::Stand { .. } => "stand": F::Stand { epoch: 2, next: 1439 };
        F::Taken { .. } => "taken": F::Taken { next: 1440 };
        F::Again { .. } => "again": F::Again { number: 1439 };
        F::Declare { .. } => "declare": F::Declare { set: 7, frames: 1440 };
        F::Finish { .. } => "finish": F::Finish { frames: 1440 };
        F::Finished { .. } => "finished": F::Finished { frames: 1440 };
        F::GoesOn => "goes on": F::GoesOn;
        F::Leave => "leave": F::Leave;
        F::ClockAsk { .. } => "clock ask": F::ClockAsk { asked_ns: 1 << 60 };
        F::ClockTell { .. } => "clock tell": F::ClockTell { asked_ns: 1 << 60, hub_ns: 1 << 61 };
        F::ClockIs(_) => "clock is": F::ClockIs(clock());
        F::WindowIs { .. } => "window is": F::WindowIs { bytes: 4 << 20 };
        F::SetHad { .. } => "set had": F::SetHad { set: 7, taken: vec![(0, 39), (300, 301)] };
        F::EndSet { .. } => "end set": F::EndSet { set: 7, next: 700 };
        F::PassedOver { .. } => "passed over": F::PassedOver { consumer: "calib".into() };
    }
}

pub(super) fn channel() -> ChannelTerms {
    ChannelTerms { memory_bytes: 256 << 20, spill_bytes: Some(1 << 34), is_unattended: true }
}

pub(super) fn taken_before() -> TakenBefore {
    TakenBefore { bytes: 300, last_bytes: 44 }
}

pub(super) fn terms() -> Vec<Sample<FrameTerms>> {
    let terms = |role| FrameTerms {
        window_bytes: 64 << 20,
        window_items: 300,
        channel: ChannelWishes {
            memory_bytes: Some(256 << 20),
            is_recorded: true,
            spill_bytes: Some(1 << 34),
            is_unattended: false,
        },
        role,
    };
    let consume = || Consume {
        consumer: [8; 16],
        process: [9; 16],
        name: Some("calib".into()),
        instance: Some(1 << 40),
        group: Some("workers".into()),
        policy: FramePolicy::Block,
        from: FrameFrom::Start,
        has: vec![HasOf { producer: producer(), next: 300, is_over: true }],
        producers: 2,
        keep_ms: 30_000,
        patience_ms: 600_000,
    };
    let produce = |first, level| FrameRole::Produce {
        producer: producer(),
        process: [9; 16],
        first,
        level,
        keep_ms: 600_000,
    };
    let levels = each! { HeldLevel;
        HeldLevel::Memory => "memory": HeldLevel::Memory;
        HeldLevel::Durable => "durable": HeldLevel::Durable;
    };
    let policies = each! { FramePolicy;
        FramePolicy::Block => "block": FramePolicy::Block;
        FramePolicy::Spill => "spill": FramePolicy::Spill;
        FramePolicy::DropOldest { .. } => "drop oldest": FramePolicy::DropOldest { depth: 300 };
        FramePolicy::LatestOnly => "latest only": FramePolicy::LatestOnly;
    };
    let froms = each! { FrameFrom;
        FrameFrom::Start => "start": FrameFrom::Start;
        FrameFrom::Now => "now": FrameFrom::Now;
        FrameFrom::Sequence(_) => "sequence": FrameFrom::Sequence(300);
    };
    let roles = each! { FrameRole;
        FrameRole::Produce { .. } => "produce":
            produce(None, HeldLevel::Memory);
        FrameRole::Consume(_) => "consume": FrameRole::Consume(Box::new(consume()));
    };
    let mut all = within(roles, "frames", terms);
    all.extend(within(levels, "frames level", |level| terms(produce(Some(300), level))));
    all.extend(within(policies, "frames policy", |policy| {
        terms(FrameRole::Consume(Box::new(Consume { policy, ..consume() })))
    }));
    all.extend(within(froms, "frames from", |from| {
        terms(FrameRole::Consume(Box::new(Consume { from, ..consume() })))
    }));
    all
}

pub(super) fn status() -> ChannelStatus {
    ChannelStatus {
        memory_bytes: 8 << 20,
        memory_bytes_max: 256 << 20,
        frames: 300,
        spill_bytes: 1 << 33,
        spill_bytes_max: 1 << 34,
        spill_trouble: Some("write failed: No space left on device".into()),
        forgotten: 2,
        was_full: true,
        producers: vec![ProducerStatus {
            producer: producer(),
            frames: 1440,
            bytes: 12 << 30,
            waiting: 2,
            is_linked: false,
            is_finished: false,
            is_gone: true,
            clock: clock(),
        }],
        consumers: vec![ConsumerStatus {
            name: "workers".into(),
            addresses: vec!["10.0.0.9".into(), "2001:db8::9".into()],
            members: 2,
            policy: FramePolicy::Block,
            behind: 300,
            in_flight: 2,
            taken: 1138,
            bytes: 9 << 30,
            lost: vec![(LossReason::Forgotten, 2)],
            tail_ns: [1000, 2000, 300_000, 1 << 40],
        }],
        sets: vec![(7, 1440, 1439)],
    }
}
