//! What is looked at all the while a session stands: the peer told that we live, stuck streams given up, packets
//! spaced, others given way to, accounts told.

use super::{Session, State};
use crate::failure::{Failure, FailureKind};
use crate::link::{ControlEnd, StopHandle};
use crate::run::sender::SendRun;
use crate::run::transfer::Transfer;
use crate::stage::pace::SPACED_TIMES;
use crate::tune::ledbat::{self, Sample};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_sys::socket::TcpInfo;
use thalweg_wire::account::StreamAccount;
use thalweg_wire::message::{Heartbeat, WaitingFor};

/// Time between two tellings of accounts.
const ACCOUNTS_EVERY: Duration = Duration::from_secs(1);
/// A stream that tries for so long and gets nothing across, while the peer is heard, is given up.
const STUCK: Duration = Duration::from_secs(3);
/// A stream's packets are not spaced wider than for this rate: a handful of them a second.
const PACING_BYTES_PER_S_MIN: u64 = 16 << 10;

impl Session {
    pub(super) fn heartbeat(&self) -> Heartbeat {
        let arrived = self.lock().streams.values().filter_map(|(_, handle)| handle.arrived()).sum();
        let mut sum = Heartbeat { arrived_bytes: arrived, ..Heartbeat::default() };
        self.transfers().iter().for_each(|transfer| transfer.add_to(&mut sum));
        // At a low limit a frame of many streams may take longer than a stall is borne. Asked in any case: a
        // wait that was over before this is not said with the next.
        if self.waits_for_share() && sum.waiting_for.is_none() {
            sum.waiting_for = Some(WaitingFor::Share);
        }
        // What writes it is held up, and says nothing itself.
        if let Some(stood) = self.in_hand.stood(Instant::now()).filter(|_| sum.waiting_for.is_none()) {
            sum.waiting_for = Some(WaitingFor::Write);
            sum.waiting_ms = u32::try_from(stood.as_millis()).unwrap_or(u32::MAX);
        }
        sum
    }

    /// What is done a few times a second. False when the session is closed.
    pub(super) fn keep(&self) -> bool {
        let (transfers, tell) = {
            let mut state = self.lock();
            if state.closed {
                return false;
            }
            if let Some(why) = state.unsaid.take() {
                drop(state);
                self.fail(why);
                return false;
            }
            let tell = state.accounts_at.is_none_or(|at| at.elapsed() >= ACCOUNTS_EVERY);
            if tell {
                state.accounts_at = Some(Instant::now());
            }
            (state.transfers.values().cloned().collect::<Vec<_>>(), tell && state.control.is_some())
        };
        self.look_at_streams();
        if tell {
            self.give_up_stuck();
        }
        self.keep_windows(&transfers);
        let yields = self.yield_to_others(&transfers);
        if tell || yields {
            self.space_packets(&transfers);
        }
        for transfer in &transfers {
            transfer.tick();
            if tell {
                transfer.tell_accounts();
            }
        }
        true
    }

    /// A path that died takes its streams, one that came back all of them: then the link is dialled anew.
    pub(super) fn give_up_stuck(&self) {
        // Of the link that is judged: another may be put in place meanwhile.
        let epoch = self.epoch();
        let stuck = self.stuck_streams();
        let Some(first) = stuck.first() else { return };
        let cause = |stream: u16| {
            let cause = format!("stream {stream} gets nothing across, though the peer is heard");
            Failure::new(FailureKind::Connection, "transfer", cause)
        };
        if stuck.len() == self.streams().len() {
            self.control_ended(epoch, ControlEnd::Silent(cause(*first)));
            return;
        }
        for &stream in &stuck {
            if let Ok(session) = self.strong() {
                self.owner.on_stream_stuck(&session, stream);
            }
            self.lose_stream(stream, cause(stream));
        }
    }

    /// Sees how they do on the way.
    fn look_at_streams(&self) {
        let mut state = self.lock();
        let State { streams, looks, is_spaced, .. } = &mut *state;
        let now = Instant::now();
        let info = |(&stream, (serial, handle)): (&u16, &(u64, StopHandle))| {
            Some(((stream, *serial), handle.info()?))
        };
        let infos: BTreeMap<_, _> = streams.iter().filter_map(info).collect();
        if *is_spaced {
            looks.spaced();
        }
        looks.look(now, &infos);
    }

    /// What the kernel says about the streams that stand.
    pub(super) fn stream_accounts(&self) -> Vec<StreamAccount> {
        let mut state = self.lock();
        let State { streams, fastest, looks, .. } = &mut *state;
        fastest.retain(|stream, _| streams.contains_key(stream));
        let account = |(&stream, (serial, handle)): (&u16, &(u64, StopHandle))| {
            let mut account = handle.account(stream)?;
            let fastest = fastest.entry(stream).or_default();
            *fastest = account.delivery_bytes_per_s_max.max(*fastest);
            account.delivery_bytes_per_s_max = *fastest;
            looks.tell((stream, *serial), &mut account);
            Some(account)
        };
        streams.iter().filter_map(account).collect()
    }

    /// The kernel's own account of the streams that stand, each with a number that no other connection of this session
    /// has.
    pub fn stream_infos(&self) -> Vec<(u64, TcpInfo)> {
        let state = self.lock();
        let info = |(serial, handle): &(u64, StopHandle)| Some((*serial, handle.info()?));
        state.streams.values().filter_map(info).collect()
    }

    /// Streams whose bytes do not arrive while the control connection lives: after an outage the kernel tries ever
    /// more rarely, and the path may be good again for a long time before it does.
    pub(super) fn stuck_streams(&self) -> Vec<u16> {
        let mut state = self.lock();
        let is_heard = state.heard_at.is_some_and(|at| at.elapsed() < STUCK / 2);
        let State { streams, delivered, .. } = &mut *state;
        delivered.retain(|stream, _| streams.contains_key(stream));
        let mut stuck = Vec::new();
        for (&stream, (_, handle)) in streams.iter() {
            let now = match handle.delivered() {
                Some((bytes, true)) => bytes,
                _ => {
                    delivered.remove(&stream);
                    continue;
                }
            };
            let known = delivered.entry(stream).or_insert((now, Instant::now()));
            if known.0 != now {
                *known = (now, Instant::now());
            } else if is_heard && known.1.elapsed() >= STUCK {
                stuck.push(stream);
            }
        }
        stuck
    }

    /// Keeps the window that was asked for on the streams of the transfers that receive files here; less, where less is
    /// offered beside others' slots.
    fn keep_windows(&self, transfers: &[Arc<dyn Transfer>]) {
        if let Some(bytes) = transfers.iter().find_map(|transfer| transfer.kept_window_bytes()) {
            let state = self.lock();
            let bytes = window_kept(bytes, state.window_offered);
            state.streams.values().for_each(|(_, handle)| handle.keep_window(bytes));
        }
    }

    /// Samples of all streams for the transfers that yield; whether there are any.
    pub(super) fn yield_to_others(&self, transfers: &[Arc<dyn Transfer>]) -> bool {
        let senders = transfers.iter().filter_map(|transfer| transfer.clone().files_sender());
        let yielding: Vec<Arc<SendRun>> = senders.filter(|run| run.yields()).collect();
        if yielding.is_empty() {
            self.lock().sampled.clear();
            return false;
        }
        let (sample, has_streams) = {
            let mut state = self.lock();
            let State { streams, sampled, .. } = &mut *state;
            sampled.retain(|stream, _| streams.contains_key(stream));
            (sample_of(streams, sampled), !streams.is_empty())
        };
        match sample {
            Some(sample) => {
                let sent: Vec<f64> = yielding.iter().map(|run| run.sent_lately()).collect();
                let parts = sample.parts(&sent);
                yielding.iter().zip(&parts).for_each(|(run, part)| run.leave_room(part));
            }
            // They ride in something else than TCP of ours: who carries them gives way, or nobody.
            None if has_streams => yielding.iter().for_each(|run| run.leave_all()),
            None => {}
        }
        true
    }

    /// Has the kernel space packets where the transfers that send have a rate: what one call hands over would else
    /// leave in one burst. Generously: the rate itself is kept by [`crate::stage::pace`].
    pub(super) fn space_packets(&self, transfers: &[Arc<dyn Transfer>]) {
        let mut rate = Some(0u64);
        let mut sends = false;
        // In a window one stream may have all of its rate: a piece that left at once would fill the queues on the way.
        let mut in_slot = 0;
        let mut at_work = 0;
        let mut all_yield = true;
        for one in transfers.iter().filter_map(|transfer| transfer.spacing()) {
            sends = true;
            at_work = at_work.max(one.at_work);
            in_slot = in_slot.max(one.in_slot);
            rate = rate.and_then(|sum| Some(sum.saturating_add(one.rate?)));
            all_yield &= one.yields;
        }
        let mut state = self.lock();
        let limited = rate.filter(|_| sends);
        if limited.is_none() && !state.is_spaced {
            return;
        }
        state.is_spaced = limited.is_some();
        let least = PACING_BYTES_PER_S_MIN.max(in_slot.saturating_add(in_slot / 4));
        let (times, at_work) = match all_yield {
            // They are spaced for hardly more than the rate: one that is under way alone needs all of it.
            true => (ledbat::SPACED_TIMES, at_work.min(under_way(&state.sampled))),
            false => (SPACED_TIMES, at_work),
        };
        let streams = state.streams.len();
        let each = limited.map_or(u64::MAX, |rate| spaced(rate as f64 * times, streams, at_work).max(least));
        state.streams.values().for_each(|(_, handle)| handle.pace(each));
    }
}

/// Rate for which the packets of each of so many streams are spaced, of which so many are at work: those that stand by
/// leave theirs to the others.
fn spaced(bytes_per_s: f64, streams: usize, at_work: usize) -> u64 {
    (bytes_per_s / streams.min(at_work).max(1) as f64) as u64
}

/// Streams that had something to carry when they were looked at.
fn under_way(sampled: &BTreeMap<u16, (u64, TcpInfo)>) -> usize {
    sampled.values().filter(|(_, info)| info.unacked_packets > 0 || info.not_sent_bytes > 0).count()
}

/// What the streams together show since `sampled`, which is brought up to date. A connection that is new there shows
/// nothing yet: what it carried before was for others. `None` if none of them is TCP.
fn sample_of(
    streams: &BTreeMap<u16, (u64, StopHandle)>,
    sampled: &mut BTreeMap<u16, (u64, TcpInfo)>,
) -> Option<Sample> {
    let mut all: Option<Sample> = None;
    for (&stream, (serial, handle)) in streams {
        let Some(now) = handle.info() else { continue };
        let before = sampled.insert(stream, (*serial, now)).filter(|(before, _)| before == serial);
        let before = before.map_or(now, |(_, before)| before);
        let sum = all.get_or_insert(Sample { rtt: now.rtt, rtt_min: now.rtt_min, ..Sample::default() });
        let acked = now.bytes_acked.saturating_sub(before.bytes_acked);
        // A stream that carried nothing has an old idea of the path.
        if acked > 0 {
            sum.rtt = if sum.acked_bytes == 0 { now.rtt } else { sum.rtt.min(now.rtt) };
        }
        sum.rtt_min = sum.rtt_min.min(now.rtt_min);
        sum.acked_bytes += acked;
        sum.lost |= now.retransmits_total > before.retransmits_total;
    }
    all
}

/// Of a window that was asked for, what is kept while so much is offered beside others' slots.
fn window_kept(asked: u64, offered: Option<u64>) -> u64 {
    offered.map_or(asked, |offered| offered.min(asked))
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::session;
    use super::*;
    use crate::link::ControlLimits;
    use crate::link::testing::LONG;
    use crate::run::share::Total;
    use crate::run::steer::Rate;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// At a byte a second it would wait for ever.
    #[test]
    fn the_peer_hears_of_every_wait_for_a_share_and_of_none_that_was_said() {
        const SHARE: Option<WaitingFor> = Some(WaitingFor::Share);
        let session = session(ControlLimits::default());
        session.share_in(Total::new(Arc::new(Rate::new(Some(1))), "dtn1".to_owned()).share());
        let says = || session.heartbeat().waiting_for;
        assert_eq!(session.wait_for_share(1 << 40, || true, || {}), None);
        assert_eq!(says(), None, "the first goes at once");
        let is_lost = AtomicBool::new(false);
        let said = std::thread::scope(|scope| {
            let waits = scope.spawn(|| session.wait_for_share(1, || !is_lost.load(Ordering::Acquire), || {}));
            let until = Instant::now() + LONG;
            while session.waiting_for_share.load(Ordering::Acquire) == 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            let said = [says(), says()];
            is_lost.store(true, Ordering::Release);
            assert!(waits.join().unwrap().is_some());
            said
        });
        assert_eq!(said, [SHARE, SHARE]);
        assert_eq!(says(), None, "the stream is lost");
        // One that was over before anything was said.
        assert!(session.wait_for_share(1, || false, || {}).is_some());
        assert_eq!([says(), says()], [SHARE, None]);
    }

    #[test]
    fn streams_that_stand_by_keep_no_part_of_a_rate_from_those_at_work() {
        assert_eq!((spaced(2000.0, 4, 4), spaced(2000.0, 4, usize::MAX)), (500, 500));
        for (streams, at_work) in [(32, 8), (32, 1), (4, 2)] {
            let together = spaced(2000.0, streams, at_work) * at_work as u64;
            assert!(together >= 2000 - at_work as u64, "{together} of {at_work} of {streams}");
        }
        assert_eq!((spaced(2000.0, 0, 0), spaced(f64::INFINITY, 1, 1)), (2000, u64::MAX));
        let [idle, sent, waits] = [(0, 0), (3, 0), (0, 9)].map(|(unacked_packets, not_sent_bytes)| {
            let info = TcpInfo { unacked_packets, not_sent_bytes, ..TcpInfo::default() };
            (1, info)
        });
        assert_eq!(under_way(&BTreeMap::from([(0, idle), (1, sent), (2, idle), (3, waits)])), 2);
    }

    #[test]
    fn beside_slots_a_window_that_was_asked_for_is_no_larger_than_what_is_offered() {
        assert_eq!(window_kept(64 << 20, None), 64 << 20);
        assert_eq!(window_kept(64 << 20, Some(16 << 10)), 16 << 10);
        assert_eq!(window_kept(4096, Some(16 << 10)), 4096);
    }
}
