//! What is looked at once a second, as it ends with whatever it is of: what the kernel says of data streams, what
//! channels of frames count. And the room of exports, by a thread of its own: a file system may stand still.

use super::Metrics;
use super::page::Histogram;
use crate::export::Exports;
use crate::sessions::Host;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::frames::channel::ChannelCounts;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::frames::hub::ChannelKey;
use thalweg_sys::clock::unix_seconds;
use thalweg_sys::socket::TcpInfo;
use thalweg_wire::hello::SessionId;
use thalweg_wire::message::LossReason;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Seen {
    pub wire: Mutex<Wire>,
    pub frames: Mutex<Frames>,
    pub room: Mutex<Rooms>,
    looked: [Mutex<Option<Instant>>; 2],
    /// Somebody may ask: it is looked, and what streams say last is kept until the next look.
    is_asked: AtomicBool,
}

/// What data streams carried.
#[derive(Default)]
pub(super) struct Wire {
    streams: HashMap<Connection, Carried>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub again_bytes: u64,
    pub rtt: Histogram,
}

/// A connection of a data stream: its session, and its number there.
type Connection = (SessionId, u64);

/// What is counted of a stream.
#[derive(Default)]
struct Carried {
    /// What the kernel said last.
    last: TcpInfo,
    /// That was its last word.
    is_over: bool,
}

impl Wire {
    /// So they are now that stand.
    fn look(&mut self, now: &HashMap<Connection, TcpInfo>) {
        for (stream, info) in now {
            self.note(*stream, info, false);
            if !info.rtt.is_zero() {
                self.rtt.see(info.rtt.as_secs_f64());
            }
        }
        // One that does not stand any more has its last word to say still.
        self.streams.retain(|stream, carried| !carried.is_over || now.contains_key(stream));
    }

    fn note(&mut self, stream: Connection, info: &TcpInfo, is_over: bool) {
        let carried = self.streams.entry(stream).or_default();
        if carried.is_over {
            return;
        }
        let before = std::mem::replace(&mut carried.last, *info);
        carried.is_over = is_over;
        self.sent_bytes += info.bytes_sent.saturating_sub(before.bytes_sent);
        self.received_bytes += info.bytes_received.saturating_sub(before.bytes_received);
        self.again_bytes += info.bytes_retrans.saturating_sub(before.bytes_retrans);
    }
}

impl Metrics {
    /// Nothing more comes on a stream.
    pub fn stream_over(&self, stream: Connection, last: &TcpInfo) {
        if self.seen.is_asked.load(Ordering::Acquire) {
            lock(&self.seen.wire).note(stream, last, true);
        }
    }
}

/// What channels of frames count.
pub(super) struct Frames {
    /// What each had at the last look that it had time for.
    pub channels: BTreeMap<ChannelKey, ChannelCounts>,
    pub taken: u64,
    pub lost: BTreeMap<&'static str, u64>,
}

impl Default for Frames {
    fn default() -> Frames {
        let lost = BTreeMap::from(LOSSES.map(|reason| (reason.name(), 0)));
        Frames { channels: BTreeMap::new(), taken: 0, lost }
    }
}

impl Frames {
    fn look(&mut self, now: Vec<(ChannelKey, Option<ChannelCounts>)>) {
        let mut before = std::mem::take(&mut self.channels);
        for (key, counts) in now {
            let before = before.remove(&key).unwrap_or_default();
            let Some(counts) = counts else {
                self.channels.insert(key, before);
                continue;
            };
            for (consumer, counts) in &counts.consumers {
                let before = before.consumers.get(consumer).cloned().unwrap_or_default();
                self.taken += since(before.taken, counts.taken);
                for (reason, lost) in &counts.lost {
                    let before = before.lost.get(reason).copied().unwrap_or(0);
                    *self.lost.entry(reason.name()).or_default() += since(before, *lost);
                }
            }
            self.channels.insert(key, counts);
        }
    }
}

/// What was added. Where there is less than before it is another's, who has that name by now.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// Why frames are lost.
const LOSSES: [LossReason; 5] = [
    LossReason::Dropped,
    LossReason::Superseded,
    LossReason::Forgotten,
    LossReason::HubRestart,
    LossReason::Damaged,
];

/// The room of all exports.
#[derive(Default)]
pub(super) struct Rooms {
    /// When it was looked at, in seconds since 1970.
    pub at: Option<u64>,
    /// By the name of the export; `None` where its file system answered with an error.
    pub exports: BTreeMap<String, Option<Room>>,
}

/// The room of an export.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub free_bytes: u64,
    pub size_bytes: u64,
    /// What of that is free may be taken; `None` where nobody may write.
    pub spare_bytes: Option<u64>,
}

impl Host {
    /// Looks from now on: somebody may ask.
    pub(super) fn look_for_metrics(&self) {
        self.metrics.seen.is_asked.store(true, Ordering::Release);
        self.again_and_again("metrics", Host::look_at_work);
        self.again_and_again("room", Host::look_at_room);
    }

    fn look_at_work(&self) {
        let seen = &self.metrics.seen;
        if !is_due(&seen.looked[0]) {
            return;
        }
        let mut wire = lock(&seen.wire);
        // Under the lock: what a stream said later is not to be counted before.
        let all = self.sessions_now().into_iter().chain(self.errand_sessions());
        let infos = all.flat_map(|session| {
            let id = session.id;
            session.stream_infos().into_iter().map(move |(serial, info)| ((id, serial), info))
        });
        wire.look(&infos.collect());
        drop(wire);
        let counts = self.hub.counts();
        lock(&seen.frames).look(counts);
    }

    pub(super) fn look_at_room(&self) {
        let seen = &self.metrics.seen;
        if !is_due(&seen.looked[1]) {
            return;
        }
        let Exports::Named(named) = self.exports() else { return };
        let mut exports = BTreeMap::new();
        for (export, directory) in named.iter() {
            let room = directory.file_system().ok().map(|system| {
                let free_bytes = system.bytes_available;
                let spare = || export.rights.guard.min_free.map(|least| least.spare(directory));
                let is_written = !export.rights.read_only;
                let spare_bytes = is_written.then(|| spare().unwrap_or(free_bytes).min(free_bytes));
                Room { free_bytes, size_bytes: system.bytes_total, spare_bytes }
            });
            exports.insert(export.name.clone(), room);
        }
        *lock(&seen.room) = Rooms { at: Some(unix_seconds()), exports };
    }
}

/// Whether it is time for the next look, which is noted then.
fn is_due(looked: &Mutex<Option<Instant>>) -> bool {
    let (mut looked, now) = (lock(looked), Instant::now());
    let is_due = looked.is_none_or(|at| now.saturating_duration_since(at) >= LOOK_EVERY);
    if is_due {
        *looked = Some(now);
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::frames::channel::{ConsumerCounts, ConsumerKey};

    #[test]
    fn bytes_of_streams_add_up_whatever_streams_come_and_go() {
        let mut wire = Wire::default();
        let info = |bytes_sent, bytes_retrans| TcpInfo {
            bytes_sent,
            bytes_retrans,
            bytes_received: 2 * bytes_sent,
            rtt: Duration::from_millis(1),
            ..TcpInfo::default()
        };
        let at = |streams: &[(u64, TcpInfo)]| -> HashMap<Connection, TcpInfo> {
            streams.iter().map(|(serial, info)| (([1; 16], *serial), *info)).collect()
        };
        wire.look(&at(&[(1, info(100, 1)), (2, info(10, 0))]));
        wire.look(&at(&[(1, info(150, 3))]));
        // What it carried after the last look, and that another never saw one.
        wire.note(([1; 16], 2), &info(30, 0), true);
        wire.note(([1; 16], 4), &info(7, 0), true);
        // It stands still, and was heard to its end.
        wire.look(&at(&[(1, info(150, 3)), (2, info(35, 0))]));
        // Another one begins again.
        wire.look(&at(&[(3, info(5, 0))]));
        assert_eq!((wire.sent_bytes, wire.received_bytes, wire.again_bytes), (192, 384, 3));
        let mut known: Vec<u64> = wire.streams.keys().map(|(_, serial)| *serial).collect();
        known.sort_unstable();
        assert_eq!(known, [1, 3], "those that are over are not kept");
    }

    #[test]
    fn frames_that_were_taken_or_lost_stay_counted_when_consumers_and_channels_are_gone() {
        let mut frames = Frames::default();
        let key: ChannelKey = ("data".to_owned(), b"scan".to_vec());
        let had = |taken, lost| {
            let counts = ConsumerCounts { taken, lost: BTreeMap::from([(LossReason::Dropped, lost)]) };
            let consumers = BTreeMap::from([(ConsumerKey::Group("g".to_owned()), counts)]);
            Some(ChannelCounts { consumers, ..ChannelCounts::default() })
        };
        frames.look(vec![(key.clone(), had(10, 1))]);
        // It had no time for the second look.
        frames.look(vec![(key.clone(), None)]);
        frames.look(vec![(key.clone(), had(15, 4))]);
        frames.look(Vec::new());
        assert!(frames.channels.is_empty());
        // Another one of that name.
        frames.look(vec![(key.clone(), had(2, 0))]);
        frames.look(vec![(key, had(1, 0))]);
        assert_eq!((frames.taken, frames.lost["dropped"]), (18, 4));
    }
}
