//! What looks at the streams some times a second show and their last accounts do not: packets that waited in a queue on
//! the way, what was lost meanwhile, the most that all streams together delivered, and the most of that where nothing
//! but the path held them.
//!
//! A queue comes and goes: a stream that fills it once, at its beginning, finds it empty at the end. What is sent again
//! between two looks was lost by a full queue if packets waited at either of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use thalweg_sys::socket::TcpInfo;
use thalweg_wire::account::StreamAccount;

/// Packets wait in a queue where the round trip is so many times the smallest, and so much longer. Where a queue holds
/// as much as the way, the round trip is still 1.4 times the smallest after CUBIC gave way to a loss (RFC 9438).
const QUEUED_TIMES: f64 = 1.3;
const QUEUED_AT_LEAST: Duration = Duration::from_millis(2);
/// Fewer bytes in all of it are no queue: so many a single stream begins with (RFC 6928: ten segments).
const QUEUED_BYTES: f64 = 14_600.0;
/// Delivered bytes are counted over no less: acknowledgements come in lumps.
const COUNTED_OVER: Duration = Duration::from_millis(500);
/// A stream had bytes on their way or to send all the while if it had for this share of the time: the kernel counts in
/// ticks of up to 10 ms.
const ALL_THE_WHILE: f64 = 0.95;

/// Number of a stream, and of the connection that it is now.
pub(super) type Key = (u16, u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Looks {
    streams: BTreeMap<Key, Seen>,
    looked_at: Option<Instant>,
    counted_at: Option<Instant>,
    /// The most that the streams which stand delivered together, in bytes a second.
    most_bytes_per_s: f64,
    /// The same of the times in which nothing but the path held one of them.
    most_open_bytes_per_s: f64,
}

/// What was seen of one stream.
#[derive(Debug, Default)]
struct Seen {
    info: TcpInfo,
    is_queued: bool,
    overflow_bytes: u64,
    queued: Duration,
    /// As it was when what it delivered was counted last.
    counted: TcpInfo,
    /// Then, and at each look since, it had bytes that were not sent yet.
    has_unsent: bool,
    peak_share_bytes_per_s: u64,
    open_share_bytes_per_s: u64,
}

impl Looks {
    /// Takes in what the kernel says of all streams that stand now.
    pub fn look(&mut self, now: Instant, infos: &BTreeMap<Key, TcpInfo>) {
        let before = self.streams.len();
        self.streams.retain(|key, _| infos.contains_key(key));
        if self.streams.len() < before {
            // It took its share along. What the others delivered then, they did at once.
            let shares = self.streams.values().map(|seen| seen.peak_share_bytes_per_s);
            self.most_bytes_per_s = shares.sum::<u64>() as f64;
            // Without its share it is less than the path carried.
            self.most_open_bytes_per_s = 0.0;
            for seen in self.streams.values_mut() {
                (seen.has_unsent, seen.open_share_bytes_per_s) = (false, 0);
            }
        }
        let since =
            self.looked_at.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let waiting = |(key, info): (&Key, &TcpInfo)| {
            let before = self.streams.get(key).map_or(0, |seen| delivered(&seen.info));
            waiting_bytes(info, delivered(info).saturating_sub(before), since)
        };
        // Of all streams: many that share a queue have little in it each.
        let is_queue = infos.iter().map(waiting).sum::<f64>() > QUEUED_BYTES;
        for (key, info) in infos {
            self.streams.entry(*key).or_default().look(info, is_queue, since);
        }
        self.count(now);
    }

    /// We space packets now: what is delivered meanwhile does not say how much the path carries. To be called before
    /// each look.
    pub fn spaced(&mut self) {
        self.streams.values_mut().for_each(|seen| seen.has_unsent = false);
    }

    fn count(&mut self, now: Instant) {
        let over = self.counted_at.map(|at| now.saturating_duration_since(at));
        if over.is_some_and(|over| over < COUNTED_OVER) {
            return;
        }
        self.counted_at = Some(now);
        let seconds = over.map_or(f64::INFINITY, |over| over.as_secs_f64());
        let bytes = |seen: &Seen| delivered(&seen.info).saturating_sub(delivered(&seen.counted));
        let rate = |seen: &Seen| bytes(seen) as f64 / seconds;
        let together: f64 = self.streams.values().map(rate).sum();
        let is_most = together > self.most_bytes_per_s;
        if is_most {
            self.most_bytes_per_s = together;
        }
        // One is enough: whatever the others left of the path, it had.
        let is_open = over.is_some_and(|over| self.streams.values().any(|seen| seen.is_open(over)));
        let is_most_open = is_open && together > self.most_open_bytes_per_s;
        if is_most_open {
            self.most_open_bytes_per_s = together;
        }
        for seen in self.streams.values_mut() {
            if is_most {
                seen.peak_share_bytes_per_s = rate(seen) as u64;
            }
            if is_most_open {
                seen.open_share_bytes_per_s = rate(seen) as u64;
            }
            seen.has_unsent = seen.info.not_sent_bytes > 0;
            seen.counted = seen.info;
        }
    }

    /// Adds to a stream's account what was seen of it.
    pub fn tell(&self, key: Key, account: &mut StreamAccount) {
        let Some(seen) = self.streams.get(&key) else { return };
        account.overflow_bytes = seen.overflow_bytes;
        account.queued_nanos = u64::try_from(seen.queued.as_nanos()).unwrap_or(u64::MAX);
        account.peak_share_bytes_per_s = seen.peak_share_bytes_per_s;
        account.open_share_bytes_per_s = seen.open_share_bytes_per_s;
    }
}

impl Seen {
    fn look(&mut self, info: &TcpInfo, is_queue: bool, since: Duration) {
        let moved = delivered(info).saturating_sub(delivered(&self.info));
        let is_queued = is_queue && moved > 0 && is_longer(info);
        if is_queued || self.is_queued {
            let again = info.bytes_retrans.saturating_sub(self.info.bytes_retrans);
            self.overflow_bytes = self.overflow_bytes.saturating_add(again);
        }
        if is_queued {
            self.queued = self.queued.saturating_add(since);
        }
        self.is_queued = is_queued;
        self.has_unsent &= info.not_sent_bytes > 0;
        self.info = *info;
    }

    /// Whether nothing but the path held it since what it delivered was counted last, `over` ago: it had bytes to send
    /// all the while, the peer and our buffer had room for them, and nothing was sent again. Of a receiver that takes
    /// little the kernel counts only part of the wait: the rest shows as a time in which all was sent.
    fn is_open(&self, over: Duration) -> bool {
        let (then, now) = (&self.counted, &self.info);
        let busy = now.busy_time.saturating_sub(then.busy_time);
        let had_room = (now.rwnd_limited, now.sndbuf_limited) == (then.rwnd_limited, then.sndbuf_limited);
        let is_busy = busy.as_secs_f64() > over.as_secs_f64() * ALL_THE_WHILE;
        self.has_unsent && is_busy && had_room && now.bytes_retrans == then.bytes_retrans
    }
}

/// Bytes that the peer has, those behind a gap too: those that it acknowledges come all at once when a gap is filled.
fn delivered(info: &TcpInfo) -> u64 {
    info.bytes_acked.saturating_add(u64::from(info.sacked_packets) * u64::from(info.mss_bytes))
}

/// Whether the round trip is as long as where packets wait in a queue.
fn is_longer(info: &TcpInfo) -> bool {
    info.rtt.saturating_sub(info.rtt_min) > QUEUED_AT_LEAST
        && info.rtt.as_secs_f64() > info.rtt_min.as_secs_f64() * QUEUED_TIMES
}

/// Bytes of a stream that wait in a queue, of which so many got across lately.
fn waiting_bytes(info: &TcpInfo, moved: u64, since: Duration) -> f64 {
    if !is_longer(info) || since.is_zero() {
        return 0.0;
    }
    let waits_s = info.rtt.saturating_sub(info.rtt_min).as_secs_f64();
    moved as f64 * waits_s / since.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One look: of each stream bytes that got across, bytes sent again, and the round trip in milliseconds.
    fn infos(streams: &[(u64, u64, u64)]) -> BTreeMap<Key, TcpInfo> {
        let info = |&(bytes_acked, bytes_retrans, rtt_ms): &(u64, u64, u64)| TcpInfo {
            bytes_acked,
            bytes_retrans,
            rtt: Duration::from_millis(rtt_ms),
            rtt_min: Duration::from_millis(60),
            mss_bytes: 1448,
            ..TcpInfo::default()
        };
        streams.iter().enumerate().map(|(number, one)| ((number as u16, 1), info(one))).collect()
    }

    /// Looks ten times a second, and tells the account of each stream.
    fn told(looks: &[&[(u64, u64, u64)]]) -> Vec<StreamAccount> {
        let mut seen = Looks::default();
        let began = Instant::now();
        let mut last = BTreeMap::new();
        for (number, streams) in looks.iter().enumerate() {
            last = infos(streams);
            seen.look(began + Duration::from_millis(100) * number as u32, &last);
        }
        let account = |key: &Key| {
            let mut account = StreamAccount::default();
            seen.tell(*key, &mut account);
            account
        };
        last.keys().map(account).collect()
    }

    /// As BBR does on a full link: its beginning fills the queue, and then it is empty again.
    #[test]
    fn what_is_sent_again_while_packets_wait_was_lost_by_a_full_queue() {
        let account = &told(&[
            &[(0, 0, 60)],
            &[(500_000, 0, 60)],
            &[(2_500_000, 1_000_000, 118)],
            &[(5_000_000, 2_900_000, 62)],
            &[(7_500_000, 2_900_000, 61)],
            &[(10_000_000, 2_901_448, 61)],
        ])[0];
        assert_eq!(account.overflow_bytes, 2_900_000);
        assert_eq!(account.queued_nanos, 100_000_000);
        // 10 MB in half a second.
        assert_eq!(account.peak_share_bytes_per_s, 20_000_000);
    }

    #[test]
    fn what_is_sent_again_while_no_packets_wait_was_lost_on_the_way() {
        // Round trips of few packets are longer at times: the last of them waits for its acknowledgement.
        let account =
            &told(&[&[(0, 0, 60)], &[(20_000, 1448, 72)], &[(30_000, 4344, 90)], &[(50_000, 8688, 63)]])[0];
        assert_eq!((account.overflow_bytes, account.queued_nanos), (0, 0));
    }

    #[test]
    fn many_streams_in_one_queue_are_in_it_however_little_each_has_there() {
        let one = [(0, 0, 60); 16];
        let next = [(20_000, 1448, 118); 16];
        let accounts = told(&[&one, &next]);
        assert!(accounts.iter().all(|account| account.overflow_bytes == 1448), "{accounts:?}");
        // One of them alone is none.
        assert_eq!(told(&[&one[..1], &next[..1]])[0].overflow_bytes, 0);
    }

    /// Two streams that take turns have a line of 10 MB/s each for itself.
    #[test]
    fn streams_that_are_busy_at_different_times_have_delivered_no_more_than_all_did_at_once() {
        let mut looks: Vec<Vec<(u64, u64, u64)>> = Vec::new();
        for number in 0..=20u64 {
            let first = number.min(10) * 1_000_000;
            looks.push(vec![(first, 0, 60), (number * 1_000_000 - first, 0, 60)]);
        }
        let looks: Vec<&[(u64, u64, u64)]> = looks.iter().map(Vec::as_slice).collect();
        let together: u64 = told(&looks).iter().map(|account| account.peak_share_bytes_per_s).sum();
        assert!((9_990_000..=10_010_000).contains(&together), "{together}");
    }

    /// Looks ten times a second at a stream that has bytes to send all the while, and tells what it delivered when only
    /// the path held it. `change` alters what the kernel says at a look, by its number.
    fn open_share(is_spaced: bool, change: impl Fn(u32, &mut TcpInfo)) -> u64 {
        let (mut seen, began) = (Looks::default(), Instant::now());
        for number in 0..=20u32 {
            let mut look = infos(&[(u64::from(number) * 1_250_000, 0, 60)]);
            for info in look.values_mut() {
                (info.busy_time, info.not_sent_bytes) = (Duration::from_millis(100) * number, 100_000);
                change(number, info);
            }
            if is_spaced {
                seen.spaced();
            }
            seen.look(began + Duration::from_millis(100) * number, &look);
        }
        let mut account = StreamAccount::default();
        seen.tell((0, 1), &mut account);
        account.open_share_bytes_per_s
    }

    #[test]
    fn what_is_delivered_while_only_the_path_holds_a_stream_is_what_the_path_carries() {
        assert_eq!(open_share(false, |_, _| {}), 12_500_000);
        // From half a second on the receiver takes little: what was seen before stays.
        let full = |number: u32, info: &mut TcpInfo| {
            if let Some(more) = number.checked_sub(5) {
                info.bytes_acked = 5 * 1_250_000 + u64::from(more) * 100_000;
                info.rwnd_limited = Duration::from_millis(70) * more;
            }
        };
        assert_eq!(open_share(false, full), 12_500_000);
    }

    #[test]
    fn what_is_delivered_while_something_else_holds_a_stream_says_nothing_of_the_path() {
        /// What the look of a number says otherwise.
        type Change = fn(u32, &mut TcpInfo);
        let tick = Duration::from_millis(4);
        let held: [(&str, Change); 5] = [
            ("the peer's window", |number, info| info.rwnd_limited = Duration::from_millis(1) * number),
            ("our buffer", |number, info| info.sndbuf_limited = Duration::from_millis(1) * number),
            ("losses", |number, info| info.bytes_retrans = u64::from(number) * 1448),
            ("nothing to send at times", |number, info| info.not_sent_bytes *= number % 3),
            ("nothing under way at times", |number, info| {
                info.busy_time = Duration::from_millis(90) * number
            }),
        ];
        for (what, change) in held {
            assert_eq!(open_share(false, change), 0, "{what}");
        }
        // Ticks of the kernel are no pause.
        let late = |_: u32, info: &mut TcpInfo| info.busy_time = info.busy_time.saturating_sub(tick);
        assert_eq!(open_share(false, late), 12_500_000);
        assert_eq!(open_share(true, |_, _| {}), 0, "packets that we space");
    }

    #[test]
    fn what_the_path_carried_with_a_stream_that_is_gone_is_forgotten() {
        let (mut seen, began) = (Looks::default(), Instant::now());
        let look = |halves: u32, streams: &[(u64, u64, u64)]| {
            let mut look = infos(streams);
            for info in look.values_mut() {
                (info.busy_time, info.not_sent_bytes) = (COUNTED_OVER * halves, 100_000);
            }
            look
        };
        let told = |seen: &Looks| {
            let mut account = StreamAccount::default();
            seen.tell((0, 1), &mut account);
            account.open_share_bytes_per_s
        };
        seen.look(began, &look(0, &[(0, 0, 60), (0, 0, 60)]));
        seen.look(began + COUNTED_OVER, &look(1, &[(3_000_000, 0, 60), (2_000_000, 0, 60)]));
        assert_eq!(told(&seen), 6_000_000);
        // Of the time in which it went nothing is known.
        seen.look(began + COUNTED_OVER * 2, &look(2, &[(6_000_000, 0, 60)]));
        assert_eq!(told(&seen), 0);
        seen.look(began + COUNTED_OVER * 3, &look(3, &[(11_000_000, 0, 60)]));
        assert_eq!(told(&seen), 10_000_000);
    }

    /// What the peer has behind a gap counts when it comes, and not all at once when the gap is filled.
    #[test]
    fn a_gap_that_is_filled_delivers_nothing_new() {
        let mut seen = Looks::default();
        let began = Instant::now();
        for number in 0..=20u32 {
            let mut look = infos(&[(if number < 15 { 0 } else { u64::from(number) * 144_800 }, 0, 60)]);
            for info in look.values_mut().filter(|_| number < 15) {
                info.sacked_packets = number * 100;
            }
            seen.look(began + Duration::from_millis(100) * number, &look);
        }
        let mut account = StreamAccount::default();
        seen.tell((0, 1), &mut account);
        let rate = account.peak_share_bytes_per_s;
        assert!((1_440_000..=1_456_000).contains(&rate), "{rate}");
    }

    #[test]
    fn a_stream_that_goes_takes_its_own_share_of_a_peak_along() {
        let mut seen = Looks::default();
        let began = Instant::now();
        seen.look(began, &infos(&[(0, 0, 60), (0, 0, 60)]));
        seen.look(began + COUNTED_OVER, &infos(&[(5_000_000, 0, 60), (5_000_000, 0, 60)]));
        seen.look(began + COUNTED_OVER * 2, &infos(&[(6_000_000, 0, 60)]));
        let mut account = StreamAccount::default();
        seen.tell((0, 1), &mut account);
        assert_eq!(account.peak_share_bytes_per_s, 10_000_000);
    }
}
