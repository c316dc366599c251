//! What a client is told of its channel: what is not as it was wished for, and by whom a producer is held up.

use crate::failure::counted;
use crate::frames::{ChannelStatus, ChannelWishes, ConsumerStatus, FramePolicy, ProducerId};
use thalweg_wire::limits;
use thalweg_wire::message::ChannelTerms;
use thalweg_wire::path::Escaped;

/// What of a channel is not as it was wished for: who opened it first said how it is kept, and a hub may have no more.
pub(super) fn unlike(wishes: &ChannelWishes, terms: &ChannelTerms) -> Option<String> {
    let mut unlike = Vec::new();
    let memory = terms.memory_bytes;
    match wishes.memory_bytes {
        Some(wished) if wished != memory => {
            unlike.push(format!("{memory} bytes of memory, not {wished} (--memory)"));
        }
        None if memory < limits::CHANNEL_BYTES => unlike.push(format!("{memory} bytes of memory")),
        _ => {}
    }
    match (wishes.spill_bytes, terms.spill_bytes) {
        (Some(wished), Some(spill)) if wished != spill => {
            unlike.push(format!("{spill} bytes of log, not {wished} (--spill-size)"));
        }
        (Some(_), None) => unlike.push("no log (--spill-size)".to_owned()),
        _ => {}
    }
    if wishes.is_unattended && !terms.is_unattended {
        unlike.push("frames that wait for a consumer (--unattended)".to_owned());
    }
    let unlike = (!unlike.is_empty()).then(|| unlike.join(", "))?;
    Some(format!(
        "the channel has {unlike}: who opened it first says how it is kept, within what its daemon has"
    ))
}

/// By which of its consumers a producer is held up, or by the log, as its hub sees it; `None`: by neither, the way to
/// the hub is slow.
pub(super) fn by_whom(status: &ChannelStatus, producer: &ProducerId) -> Option<String> {
    status.producers.iter().find(|row| row.producer == *producer && row.waiting > 0)?;
    let behind = |row: &ConsumerStatus| row.behind.saturating_add(row.in_flight);
    // What is only under way to one is not in the room of others.
    let holds = |row: &&ConsumerStatus| {
        matches!(row.policy, FramePolicy::Block | FramePolicy::Spill) && row.behind > 0
    };
    let Some(last) = status.consumers.iter().filter(holds).max_by_key(|&row| behind(row)) else {
        let has_log = status.spill_bytes_max > 0;
        return match status.consumers.is_empty() {
            true => Some("nobody takes the frames of the channel".to_owned()),
            false => has_log.then(|| "the log of the channel takes what it is given slowly".to_owned()),
        };
    };
    let policy = if last.policy == FramePolicy::Block { "block" } else { "spill" };
    let at = last.addresses.join(", ");
    let at = if at.is_empty() { at } else { format!(" at {at}") };
    let frames = counted(behind(last), "frame", "frames");
    Some(format!("consumer {}{at}, {policy}, {frames} behind", last.name))
}

/// What is told of a consumer for which a producer is held up no more.
pub(super) fn passed_over(consumer: &str) -> String {
    let consumer = Escaped(consumer.as_bytes());
    format!(
        "consumer {consumer}, block, took nothing for as long as the daemon lets it hold producers up (--block-max): \
         until it takes something the oldest frames are dropped for it, and it is told which"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::{ClockOffset, ProducerStatus};

    #[test]
    fn what_a_channel_lacks_of_what_was_wished_for_is_told_and_nothing_else() {
        let (memory_bytes, spill_bytes) = (256 << 20, Some(1 << 30));
        let terms = ChannelTerms { memory_bytes, spill_bytes, is_unattended: false };
        let none = ChannelWishes::default();
        assert_eq!(unlike(&none, &terms), None);
        let same = ChannelWishes { memory_bytes: Some(memory_bytes), spill_bytes, ..none };
        assert_eq!(unlike(&same, &terms), None);
        let other = ChannelWishes {
            memory_bytes: Some(1 << 30),
            spill_bytes: Some(1 << 20),
            is_unattended: true,
            ..none
        };
        let text = unlike(&other, &terms).unwrap();
        for word in ["268435456 bytes of memory, not 1073741824", "(--spill-size)", "(--unattended)"] {
            assert!(text.contains(word), "{text}");
        }
        // Less than anybody has who does not ask.
        let little = ChannelTerms { memory_bytes: 1 << 20, ..terms };
        assert!(unlike(&none, &little).is_some_and(|text| text.contains("1048576 bytes of memory")));
    }

    #[test]
    fn a_producer_is_held_up_by_the_consumer_that_is_furthest_behind_and_not_by_its_link() {
        let cam = ProducerId::new("cam").unwrap();
        let producer = ProducerStatus {
            producer: cam.clone(),
            frames: 9,
            bytes: 9,
            waiting: 1,
            is_linked: true,
            is_finished: false,
            is_gone: false,
            clock: ClockOffset { offset_ns: 0, bound_ns: 0 },
        };
        let consumer = |name: &str, policy, behind| ConsumerStatus {
            name: name.to_owned(),
            addresses: vec!["10.0.0.9".to_owned()],
            members: 1,
            policy,
            behind,
            in_flight: 1,
            taken: 0,
            bytes: 0,
            lost: Vec::new(),
            tail_ns: [0; 4],
        };
        let late = FramePolicy::DropOldest { depth: 0 };
        let consumers = vec![
            consumer("near", FramePolicy::Block, 3),
            consumer("calib", FramePolicy::Block, 3999),
            consumer("view", late, 9000),
        ];
        let mut status = ChannelStatus { producers: vec![producer], consumers, ..ChannelStatus::default() };
        let by = by_whom(&status, &cam);
        assert_eq!(by.as_deref(), Some("consumer calib at 10.0.0.9, block, 4000 frames behind"));
        // Who has all that there is holds nobody up.
        status.consumers.iter_mut().for_each(|row| row.behind = 0);
        assert_eq!(by_whom(&status, &cam), None);
        status.spill_bytes_max = 1 << 30;
        assert!(by_whom(&status, &cam).is_some_and(|by| by.contains("the log of the channel")));
        status.consumers.clear();
        assert_eq!(by_whom(&status, &cam).as_deref(), Some("nobody takes the frames of the channel"));
        status.producers[0].waiting = 0;
        assert_eq!(by_whom(&status, &cam), None);
    }
}
