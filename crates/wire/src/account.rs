//! Where the time of a transfer went: what each side tells the other, so that either can name the narrowest stage.
//!
//! All figures count from the start of the transfer on that side. They are hints: nothing is decided by them that could
//! harm, and a peer's are bounded in number and otherwise taken as they come.

use crate::message::{is_congestion_name, list};
use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Stages that one side may tell of; more than there are.
pub const STAGES_MAX: usize = 64;
/// Longest name of a machine, in bytes: what Linux lets one have.
pub const MACHINE_BYTES_MAX: usize = 64;

/// The accounts of one side of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SideAccounts {
    /// Time since the transfer began on this side, in nanoseconds.
    pub elapsed_nanos: u64,
    /// Its stages; at most [`STAGES_MAX`].
    #[serde(deserialize_with = "list::stages")]
    pub stages: Vec<StageAccount>,
    /// What the process used, other transfers of the same process included.
    pub process: ProcessAccount,
    /// The device below the source or destination, where it is known.
    pub disk: Option<DiskAccount>,
    /// Sender: what its kernel says about each stream; at most [`limits::STREAMS_MAX`].
    #[serde(deserialize_with = "list::streams")]
    pub streams: Vec<StreamAccount>,
    /// Receiver: the room at the destination, where it is known.
    #[serde(default)]
    pub room: Option<RoomAccount>,
    /// What its operator lets it and all others of its process move together, if that is bounded.
    #[serde(default)]
    pub limit: Option<LimitAccount>,
    /// What its machine used meanwhile; `None` where nothing counts that.
    #[serde(default)]
    pub energy: Option<EnergyAccount>,
    /// Receiver: what it found under other names, where it was asked to look.
    #[serde(default)]
    pub renamed: Option<RenamedAccount>,
}

/// What a receiver found in its own files under other names, and copied from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RenamedAccount {
    /// Files of which some content was found.
    pub files: u64,
    /// Content bytes found.
    pub bytes: u64,
    /// More files stand there than are looked at: of the others none was found.
    pub is_cut: bool,
}

/// A limit that the operator of a mover set for all that it moves, or for what one of its exports does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct LimitAccount {
    /// Of both directions and all sessions together.
    pub bytes_per_s: u64,
    /// Name of its machine, of at most [`MACHINE_BYTES_MAX`] bytes.
    pub machine: String,
    /// Name of the export, of at most [`limits::NAME_BYTES_MAX`] bytes, if it is of that alone.
    #[serde(default)]
    pub export: Option<String>,
}

/// The energy that a machine used since the transfer began, for all that it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct EnergyAccount {
    /// Whole joules; `None` where the counters could not be read, or not often enough.
    pub joules: Option<u64>,
    /// Whether the whole platform is counted; else CPU packages and their memory.
    pub is_platform: bool,
    /// Whether this mover is not permitted to read the counters.
    pub is_denied: bool,
}

/// The room at a destination, and what is to come into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RoomAccount {
    /// Bytes that an ordinary user could write there when the transfer began. Quotas are not in it.
    pub free_bytes: u64,
    /// Content bytes of new files, as far as it is decided by now: in a dry run of those that would come. Sparse files
    /// are not in it, nor is what an earlier attempt left or what may be found there by comparing.
    pub wanted_bytes: u64,
}

/// Where one stage of a mover spent its time; all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct StageAccount {
    /// Number of the stage, in the order in which a byte passes them; unknown ones are ignored.
    pub stage: u8,
    /// Time at work in the stage, waits for its own device included, in nanoseconds.
    pub busy_nanos: u64,
    /// Time without anything to work on, in nanoseconds.
    pub input_nanos: u64,
    /// Time in which what comes behind did not take what was ready, in nanoseconds.
    pub output_nanos: u64,
    /// CPU time of the work, in nanoseconds.
    pub cpu_nanos: u64,
    /// Content bytes through it; of what waits for a limit, bytes as they are sent.
    pub bytes: u64,
    /// Pieces of work through it: segments, small files, entries or rounds.
    pub items: u64,
    /// Threads that share it: of streams those that took work, on average while there was any.
    pub threads: u16,
    /// What waits before it now, in pieces of work; of a stage that has several requests to a disk in flight, these.
    pub queue: u32,
    /// The most that ever did; 0 of a stage that has no queue.
    pub queue_max: u32,
}

/// What a process used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ProcessAccount {
    /// The same number for processes of one running kernel; 0 if unknown.
    pub host: u64,
    /// CPU time in user mode, in nanoseconds.
    pub user_nanos: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_nanos: u64,
    /// Time in which its threads could have run and had no CPU, summed over threads, in nanoseconds.
    pub runnable_nanos: u64,
    /// Waits of its threads.
    pub voluntary_switches: u64,
    /// Times a CPU was taken away from its threads.
    pub involuntary_switches: u64,
    /// Bytes that reads of this process fetched from a medium.
    pub read_bytes: u64,
    /// Bytes that this process caused to be written to a medium.
    pub written_bytes: u64,
    /// CPUs that it may run on, in thousandths, whatever quota there is.
    pub cores_milli: u32,
    /// CPUs that its control group may use in the long run, in thousandths, if that is limited.
    pub quota_milli: Option<u32>,
    /// Time in which the control group had used up its quota, in nanoseconds.
    pub throttled_nanos: u64,
    /// Times that happened.
    pub throttled_count: u64,
    /// Time in which some task of the machine (or group) waited for I/O, in nanoseconds, where the kernel tells.
    pub io_pressure_nanos: Option<u64>,
    /// Time in which some task of the machine (or group) waited for a CPU, in nanoseconds, where the kernel tells.
    pub cpu_pressure_nanos: Option<u64>,
    /// Looks at whether heat slows the machine's CPUs, some a second at most; 0 where the kernel does not tell.
    #[serde(default)]
    pub heat_looks: u32,
    /// Of these, looks when it did, or had since the look before.
    #[serde(default)]
    pub heat_slowed: u32,
    /// Times that a core or a package was slowed for heat, where they count.
    #[serde(default)]
    pub heat_times: u64,
}

/// What a block device did for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DiskAccount {
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with something under way, in nanoseconds.
    pub busy_nanos: u64,
    /// Time in flushes of its cache, in nanoseconds.
    pub flush_nanos: u64,
}

/// What the sender's kernel says about a stream (`TCP_INFO`); times and counts since the transfer began,
/// or since it was connected, if that was later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct StreamAccount {
    /// Its number.
    pub stream: u16,
    /// Bytes that the peer acknowledged.
    pub acked_bytes: u64,
    /// Smoothed round-trip time, in nanoseconds.
    pub rtt_nanos: u64,
    /// Smallest round-trip time of late, in nanoseconds.
    pub rtt_min_nanos: u64,
    /// Congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// Window that the peer offers, in bytes.
    pub window_bytes: u64,
    /// Time with bytes to send, in nanoseconds. The next two are parts of it.
    pub busy_nanos: u64,
    /// Time in which the peer's window was the bound, in nanoseconds.
    pub rwnd_limited_nanos: u64,
    /// Time in which our send buffer was the bound, in nanoseconds.
    pub sndbuf_limited_nanos: u64,
    /// Bytes sent, again-sent ones too.
    pub sent_bytes: u64,
    /// Bytes sent again.
    pub retransmitted_bytes: u64,
    /// Bytes delivered a second, of the latest sample.
    pub delivery_bytes_per_s: u64,
    /// The most of all samples that were not bounded by having nothing to send; 0 without one.
    pub delivery_bytes_per_s_max: u64,
    /// Name of its congestion control.
    pub congestion: String,
    /// Address that it leaves from: tells cards apart. `None` for what is no IP socket.
    pub local: Option<IpAddr>,
    /// Address that it goes to.
    pub remote: Option<IpAddr>,
    /// Our send buffer as it is now, the kernel's bookkeeping included, in bytes; 0 if unknown.
    #[serde(default)]
    pub send_buffer_bytes: u64,
    /// Of the bytes sent again, those that were while packets waited in a queue on the way: a full queue lost them.
    #[serde(default)]
    pub overflow_bytes: u64,
    /// Time in which packets waited in a queue on the way, by looks some times a second, in nanoseconds.
    #[serde(default)]
    pub queued_nanos: u64,
    /// Bytes a second that it delivered when all streams together delivered the most; 0 if unknown.
    #[serde(default)]
    pub peak_share_bytes_per_s: u64,
    /// The same of the times in which nothing but the path held one of the streams; 0 if there were none.
    #[serde(default)]
    pub open_share_bytes_per_s: u64,
}

impl StreamAccount {
    /// Time in which neither the peer's window nor our send buffer was the bound of what was to be sent, in
    /// nanoseconds: then the congestion window was, or the last bytes waited for their acknowledgement. The kernel does
    /// not count it; it is what is left of the time with bytes to send.
    pub fn cwnd_limited_nanos(&self) -> u64 {
        let by_others = self.rwnd_limited_nanos.saturating_add(self.sndbuf_limited_nanos);
        self.busy_nanos.saturating_sub(by_others)
    }
}

impl SideAccounts {
    /// The row of a stage; zeros if it saw nothing.
    pub fn stage(&self, stage: u8) -> StageAccount {
        let row = self.stages.iter().find(|row| row.stage == stage).copied();
        row.unwrap_or(StageAccount { stage, ..StageAccount::default() })
    }

    /// Whether it is within the bounds of what a peer tells of itself.
    ///
    /// # Errors
    /// What is not.
    pub fn check(&self) -> Result<(), DecodeError> {
        let within = |what, value: usize, limit: usize| {
            if value <= limit {
                return Ok(());
            }
            Err(DecodeError::TooLarge { what, value: value as u64, limit: limit as u64 })
        };
        within("stages", self.stages.len(), STAGES_MAX)?;
        within("streams", self.streams.len(), usize::from(limits::STREAMS_MAX))?;
        let machine_bytes = self.limit.as_ref().map_or(0, |limit| limit.machine.len());
        within("name of a machine", machine_bytes, MACHINE_BYTES_MAX)?;
        let export = self.limit.as_ref().and_then(|limit| limit.export.as_ref());
        within("name of an export", export.map_or(0, String::len), limits::NAME_BYTES_MAX)?;
        let is_name = |name: &str| name.is_empty() || is_congestion_name(name);
        match self.streams.iter().all(|stream| is_name(&stream.congestion)) {
            true => Ok(()),
            false => Err(DecodeError::Invalid { what: "congestion control" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_no_longer_name_than_a_kernel_gives_nor_an_export_than_a_file() {
        let named = |machine: usize, export: usize| {
            let (machine, export) = ("m".repeat(machine), Some("e".repeat(export)));
            let limit = Some(LimitAccount { bytes_per_s: 1, machine, export });
            SideAccounts { limit, ..SideAccounts::default() }.check()
        };
        assert_eq!(named(MACHINE_BYTES_MAX, limits::NAME_BYTES_MAX), Ok(()));
        assert!(named(MACHINE_BYTES_MAX + 1, 1).is_err());
        assert!(named(1, limits::NAME_BYTES_MAX + 1).is_err());
    }
}
