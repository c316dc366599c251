//! What a member of a subscription is handed next.
//!
//! 1. Reports of sets to a group, and who is over, which each member gets.
//! 2. What comes before the cursor: notes and losses.
//! 3. What others had who went away.
//! 4. The frame at the cursor.
//!
//! On the way the cursor passes what nobody is handed, and what is lost is named before what follows it. Nothing is
//! taken out before there is room for it.

use super::log::{Disk, Kind, Log, Logged};
use super::producers::KnownProducer;
use super::subscription::{Handed, Member, Note, Subscription};
use crate::frames::lane::cost_of;
use crate::frames::spill::Files;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_wire::message::{FramePolicy, Item, LossReason, ProducerId};

/// Where the next thing is.
#[derive(Debug)]
pub(super) enum Next {
    /// A report that the member was not handed.
    Report(Note),
    /// The first of what comes before the cursor.
    Pending,
    /// The first of what others had.
    Returned,
    /// The frame at the cursor: whose, and which.
    Frame(Handed, Arc<ProducerId>, u64),
}

/// What comes next, with its cost in the lane; `None`: nothing for now.
pub(super) fn next(
    one: &mut Subscription,
    member: &Member,
    log: &Log,
    producers: &BTreeMap<ProducerId, KnownProducer>,
) -> Option<(Next, u64)> {
    loop {
        if let Some(report) = one.report_from(member.report) {
            let bytes = cost_of(&report.item);
            return Some((Next::Report(report), bytes));
        }
        if let Some(note) = one.pending.front() {
            return Some((Next::Pending, cost_of(&note.item)));
        }
        if let Some(handed) = one.returned.values().next() {
            return Some((Next::Returned, handed.cost()));
        }
        let logged = log.get(one.cursor)?;
        match &logged.kind {
            Kind::Frame { producer, sequence, cost, .. } => {
                if let Some(handed) = frame(one, logged, producers.get(&**producer)) {
                    return Some((Next::Frame(handed, producer.clone(), *sequence), *cost));
                }
            }
            Kind::Note(_) | Kind::Nothing => {
                // Nothing of it follows that would show what is missing, and the next hub takes it for named.
                if let Kind::Note(Item::ProducerOver { producer, frames, .. }) = &logged.kind {
                    let first_here = producers.get(producer).map_or(0, |known| known.first_here);
                    one.lose_before(producer, first_here, *frames);
                    one.expect(&producer.clone().into(), one.expected(producer).max(*frames));
                }
                if !one.pass(Some(logged), LossReason::Forgotten) {
                    // Where too many notes or reports wait, so does what follows.
                    return None;
                }
            }
        }
    }
}

/// The frame at the cursor. `None`: it is not handed out and was passed, or what is missing before it was named.
fn frame(one: &mut Subscription, logged: &Logged, known: Option<&KnownProducer>) -> Option<Handed> {
    let Kind::Frame { producer, sequence, cost, set } = &logged.kind else { return None };
    let expected = one.expected(producer);
    if *sequence < expected {
        one.cursor += 1;
        return None;
    }
    if *sequence > expected {
        // Below `first_here` another hub had it; else we did, and have it no more.
        let restart = known.map_or(0, |known| known.first_here).clamp(expected, *sequence);
        one.lose(producer, expected, restart, LossReason::HubRestart);
        one.lose(producer, restart, *sequence, LossReason::Forgotten);
        one.expect(producer, *sequence);
        return None;
    }
    let has_newer = known.is_some_and(|known| known.last_position > one.cursor);
    if one.policy == FramePolicy::LatestOnly && has_newer {
        one.pass(Some(logged), LossReason::Superseded);
        return None;
    }
    match (&logged.held, logged.disk) {
        (Some(held), _) => Some(Handed::Frame(one.cursor, held.clone())),
        (None, Disk::At(at)) => Some(Handed::OnDisk {
            position: one.cursor,
            at,
            cost: *cost,
            producer: producer.clone(),
            sequence: *sequence,
            set: *set,
        }),
        (None, _) => {
            one.pass(Some(logged), LossReason::Forgotten);
            None
        }
    }
}

/// Takes it out of where it is, for this member. What has to be read stays on disk until it is.
pub(super) fn take(
    one: &mut Subscription,
    member: &mut Member,
    next: Next,
    files: &mut Files,
) -> Option<Handed> {
    match next {
        Next::Report(report) => {
            member.report += 1;
            Some(Handed::Note(report))
        }
        Next::Pending => one.pending.pop_front().map(Handed::Note),
        Next::Returned => one.returned.pop_first().map(|(_, handed)| handed),
        Next::Frame(handed, producer, sequence) => {
            if let Handed::OnDisk { at, .. } = &handed {
                files.pin(at.file, true);
            }
            one.expect(&producer, sequence + 1);
            one.cursor += 1;
            Some(handed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::lane::Window;
    use thalweg_wire::message::{FrameFrom, LostRange};

    const WINDOW: Window = Window { bytes: 1 << 20, items: 64 };

    fn producer() -> Arc<ProducerId> {
        Arc::new(ProducerId::new("cam").unwrap())
    }

    fn logged(sequence: u64, disk: Disk) -> Logged {
        let kind = Kind::Frame { producer: producer(), sequence, cost: 100, set: None };
        Logged { kind, held: None, disk }
    }

    /// What a member is handed of this log, in order, as words.
    fn handed(one: &mut Subscription, log: &Log) -> Vec<String> {
        let (producers, mut files) = (BTreeMap::new(), Files::default());
        let mut member = Member::new(WINDOW, [1; 16], 1, one.reports_end());
        let mut all = Vec::new();
        while let Some((found, bytes)) = next(one, &member, log, &producers) {
            assert!(bytes > 0);
            all.push(match take(one, &mut member, found, &mut files) {
                Some(Handed::Note(Note {
                    item: Item::Lost(LostRange { first, end, reason, .. }), ..
                })) => format!("lost {first}..{end} {reason:?}"),
                Some(Handed::OnDisk { position, sequence, .. }) => format!("frame {sequence} at {position}"),
                other => format!("{other:?}"),
            });
        }
        all
    }

    #[test]
    fn what_is_missing_is_named_before_what_follows_and_what_others_had_comes_first() {
        let at = |offset| Disk::At(crate::frames::spill::Location { file: 0, offset, bytes: 10 });
        let mut log = Log::default();
        // 0 is there, 1 was never here, 2 was and is no more, 3 is there, and 3 comes once more; then something
        // damaged.
        for (sequence, disk) in [(0, at(0)), (2, Disk::No), (3, at(30)), (3, at(40))] {
            log.push(logged(sequence, disk));
        }
        log.push(Logged { kind: Kind::Nothing, held: None, disk: Disk::No });
        log.push(logged(4, at(50)));
        let new = || Subscription::new("x".into(), false, FramePolicy::Block, FrameFrom::Start, 0);
        let mut one = new();
        let expected =
            ["frame 0 at 0", "lost 1..2 Forgotten", "lost 2..3 Forgotten", "frame 3 at 2", "frame 4 at 5"];
        assert_eq!(handed(&mut one, &log), expected);
        assert_eq!((one.cursor, one.expected(&producer())), (log.end(), 5));
        // One who went had the first.
        let mut one = new();
        let mut files = Files::default();
        let mut gone = Member::new(WINDOW, [1; 16], 1, 0);
        let (found, _) = next(&mut one, &gone, &log, &BTreeMap::new()).unwrap();
        let had = take(&mut one, &mut gone, found, &mut files).unwrap();
        one.returned.insert(0, had);
        assert_eq!(handed(&mut one, &log), expected);
        // What does not fit is looked at and not taken: it is there the next time.
        let mut one = new();
        for _ in 0..2 {
            let (found, bytes) = next(&mut one, &gone, &log, &BTreeMap::new()).unwrap();
            assert!(matches!(found, Next::Frame(_, _, 0)) && bytes == 100 && one.cursor == 0);
        }
    }
}
