//! Every bound on what a peer or a stored file may claim, with its reason, proved against each other at
//! compile time.

/// Protocol versions that this build speaks, lowest first.
pub const VERSION_MIN: u16 = 1;
/// See [`VERSION_MIN`].
pub const VERSION_MAX: u16 = 1;

/// Longest path inside a transfer: 2,000 levels of 255 bytes, far beyond `PATH_MAX`.
pub const PATH_BYTES_MAX: usize = 512 << 10;
/// Levels of a place below its export: as many as a path may have whose names are the longest.
pub const PLACE_LEVELS_MAX: usize = 2000;
/// Longest name that Linux file systems take.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest symbolic link target. Linux allows 4,095 bytes; other systems more.
pub const LINK_TARGET_BYTES_MAX: usize = 64 << 10;
/// All extended attributes of one entry together, names and values.
pub const XATTR_BYTES_MAX: usize = 1 << 20;
/// Extended attributes of one entry.
pub const XATTRS_MAX: usize = 4096;
/// Longest error or reason text a peer may send.
pub const TEXT_BYTES_MAX: usize = 4096;

/// One control message. Holds one entry with everything at its limit.
pub const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// Entries in one offer: bounds the memory that a small message can unfold into.
pub const OFFER_ENTRIES_MAX: usize = 1024;
/// Items (answers, acknowledgements, outcomes) in one message.
pub const MESSAGE_ITEMS_MAX: usize = 8192;
/// What could not be kept, of all outcomes in one message: honest ones have some 32 bytes each and fill it first.
pub const MESSAGE_LOSSES_MAX: usize = MESSAGE_BYTES_MAX / 32;
/// Extended attributes of all entries in one message: an honest one has those of one entry, or some thousands.
pub const MESSAGE_XATTRS_MAX: usize = MESSAGE_BYTES_MAX / 32;
/// Exports that a server tells of: honest ones are a handful, and of more than some hundred metrics tell nothing.
pub const EXPORTS_TOLD_MAX: usize = MESSAGE_BYTES_MAX / 32;
/// Runs of chunks in all answers of one message: of a file of many chunks each takes four bytes and more.
pub const MESSAGE_RUNS_MAX: usize = MESSAGE_BYTES_MAX / 4;
/// Places that one transfer reads from: each is a directory that is held open.
pub const PLACES_MAX: usize = 1024;
/// Parts that the entries of a source are dealt into: of more, each would do little else than list all of it.
pub const PARTS_MAX: u32 = 4096;
/// Names of a list that a client has a far source send alone.
pub const ONLY_NAMES_MAX: usize = 32 << 10;
/// Chunk digests in one message.
pub const MESSAGE_DIGESTS_MAX: usize = 32 << 10;
/// Names of deleted entries that are told; more are counted only.
pub const DELETED_TOLD_MAX: usize = 10_000;

/// Entries that a sender may have offered and not yet seen settled. Covers 200 ms of round trip at
/// 80,000 files/s five times over.
pub const ENTRIES_IN_FLIGHT_MAX: usize = 96 << 10;
/// Most outcomes that a receiver keeps because the sender has not said that it heard them. A sender says so every 1,024
/// outcomes, and once more over every new link: what it may have in flight, told again and again, stays far below.
pub const ENTRIES_UNHEARD_MAX: usize = 256 << 10;
/// Bytes of paths, link targets and attributes that those entries may hold together.
pub const ENTRY_BYTES_IN_FLIGHT_MAX: usize = 48 << 20;

/// Bytes of receipt lines that a sender lets wait for entries before them in their blocks: beyond it nothing more is
/// offered until some of those are settled.
pub const RECEIPT_BYTES_WAITING_MAX: usize = 32 << 20;
/// The same as a receiver bears it: the sender's, with all that may be in flight, names escaped.
pub const RECEIPT_BYTES_HELD_MAX: usize =
    RECEIPT_BYTES_WAITING_MAX + 4 * ENTRY_BYTES_IN_FLIGHT_MAX + ENTRIES_IN_FLIGHT_MAX * 256;

/// Runs of holes that a receiver keeps of all files of a transfer until what lies between them is durable.
/// Each took its sender some ten bytes and takes three times as much here. A file that is read in order has
/// some thousands at once, however many holes it has; one read at random, half as many as it has chunks.
pub const HOLE_RUNS_MAX: usize = 512 << 10;
/// The same of a sender, for all that a receiver says of chunks: what is kept of that grows with the gaps in
/// it. What was sent allows more.
pub const GAPS_MAX: usize = 1 << 20;
/// Of these, what a receiver tells of earlier attempts. A sender may count some of it twice, while a file that it was
/// told of is begun anew.
pub const GAPS_TOLD_MAX: usize = GAPS_MAX / 4 * 3;

/// Smallest and largest chunk: the unit of order, digest, journal, acknowledgement and repair.
pub const CHUNK_BYTES_MIN: u64 = 64 << 10;
/// See [`CHUNK_BYTES_MIN`].
pub const CHUNK_BYTES_MAX: u64 = 64 << 20;
/// Whether chunks may have so many bytes: a power of two from [`CHUNK_BYTES_MIN`] to [`CHUNK_BYTES_MAX`].
pub const fn is_chunk_size(bytes: u64) -> bool {
    bytes.is_power_of_two() && bytes >= CHUNK_BYTES_MIN && bytes <= CHUNK_BYTES_MAX
}
/// Smallest and largest segment: one buffer, one read, one sealed frame, one write.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// See [`SEGMENT_BYTES_MIN`]. 4 MiB is the request size beyond which no disk here got faster; 004 (section III) reads
/// arrays with 32 MiB.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Memory for frames of all streams of one link and direction: as much as 256 streams with 4 MiB segments take. With
/// larger segments a link has fewer streams.
pub const STREAM_BYTES_MAX: u64 = 1 << 30;
/// Largest file: what `off_t` holds.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Files in one pack.
pub const PACK_FILES_MAX: usize = 4096;

/// Smallest and largest window of a transfer of flows: what is kept in memory because it is not marked yet.
pub const FLOW_WINDOW_BYTES_MIN: u64 = 64 << 10;
/// See [`FLOW_WINDOW_BYTES_MIN`]. Fills 20 Gbit/s over 100 ms; a client can have a server hold it once for each
/// transfer.
pub const FLOW_WINDOW_BYTES_MAX: u64 = 256 << 20;
/// A piece of a flow counts as so many bytes more than it has: what is kept beside it. So a producer that says a byte
/// at a time, or a hostile one, does not take a hundred times the memory that its bytes are allowed.
pub const FLOW_PIECE_BESIDE_BYTES: usize = 256;
/// Flows of one transfer that are not settled: each holds a file open at both sides.
pub const FLOWS_MAX: usize = 16 << 10;
/// Of them, complete ones that another receiver is asked about at the same time: there may be more of those than may be
/// under way.
pub const FLOWS_AGAIN_MAX: usize = 1024;
/// Complete flows that a sender remembers to ask another receiver about, the latest: some 25 MiB with usual names.
/// Whoever came before them is in the receipt of the session in which it was completed, and in none after that.
pub const FLOWS_DONE_KEPT_MAX: usize = 64 << 10;
/// Of [`FLOWS_MAX`], those whose sources are still read.
pub const FLOWS_READ_MAX: usize = FLOWS_MAX - FLOWS_AGAIN_MAX;
/// Flows that earlier attempts did not complete, and that a sender hears of: some 15 MiB with usual names.
pub const FLOWS_LEFT_MAX: usize = 64 << 10;
/// Longest time between two marks that may be asked for.
pub const MARK_EVERY_MS_MAX: u32 = 60_000;

/// Payload of one frame of a detector: 16384 x 16384 elements of four bytes.
pub const FRAME_PAYLOAD_BYTES_MAX: u64 = 1 << 30;
/// What its user adds to it.
pub const FRAME_METADATA_BYTES_MAX: usize = 32 << 10;
/// Its type of elements, as text.
pub const DTYPE_BYTES_MAX: usize = 64;
/// Its axes; NumPy has at most 64, and nobody more than a handful.
pub const SHAPE_AXES_MAX: usize = 32;
/// Names of producers and groups.
pub const FRAME_NAME_BYTES_MAX: usize = 64;
/// Head of an item of a lane, all of the above together: fits the smallest segment.
pub const ITEM_HEAD_BYTES_MAX: usize = 48 << 10;
/// Sequences end here: 48 bits, which last for eight years at a million frames a second.
pub const FRAME_SEQUENCE_END: u64 = 1 << 48;
/// Frames of one set.
pub const SET_FRAMES_MAX: u32 = 1 << 20;
/// Ranges of missing frames that are told of one set.
pub const SET_RANGES_MAX: usize = 4096;
/// Sets of a channel that are not over: each takes a bit for a frame, at both ends.
pub const SETS_OPEN_MAX: usize = 256;
/// Producers that a channel knows.
pub const PRODUCERS_MAX: usize = 1024;
/// Consumers of a channel, members of groups counted singly.
pub const CONSUMERS_MAX: usize = 1024;
/// Rows of each kind in a channel's status.
pub const STATUS_ROWS_MAX: usize = 1024;
/// Reasons for which a consumer does not get frames; more than there are.
pub const STATUS_REASONS_MAX: usize = 16;
/// Addresses in the row of a group.
pub const STATUS_ADDRESSES_MAX: usize = 8;
/// Bytes of a lane under way, from and to.
pub const LANE_BYTES_MIN: u64 = 64 << 10;
/// See [`LANE_BYTES_MIN`]. As [`FLOW_WINDOW_BYTES_MAX`].
pub const LANE_BYTES_MAX: u64 = 256 << 20;
/// Items of a lane under way.
pub const LANE_ITEMS_MAX: u32 = 64 << 10;
/// Bytes of payloads that a hub holds in memory for a channel, if nobody says otherwise.
pub const CHANNEL_BYTES: u64 = 256 << 20;
/// The most that a client may ask for, if the daemon's owner does not say otherwise.
pub const CHANNEL_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a spill log, if nobody says otherwise.
pub const SPILL_BYTES: u64 = 16 << 30;
/// The most that a client may ask for, if the daemon's owner does not say otherwise.
pub const SPILL_BYTES_MAX: u64 = 64 << 30;
/// The least: some files of the log.
pub const SPILL_BYTES_MIN: u64 = 1 << 20;
/// Frames that a channel holds in memory and log together: what it remembers of each takes about 100 bytes.
pub const CHANNEL_FRAMES_MAX: usize = 1 << 20;
/// For so long, in milliseconds, a producer or a consumer may have its place kept without a link.
pub const KEEP_MS_MAX: u32 = 86_400_000;

/// Files with chunks in flight that a client may ask for: each may hold a file open at both sides.
pub const CONCURRENCY_MAX: u32 = 4096;
/// Chunks or packs of one stream in flight that a client may ask for: far more than any window holds.
pub const DEPTH_MAX: u32 = 4096;
/// Disk requests of one stream in flight that a client may ask for: disks gain nothing beyond 8
/// (docs/measurements.md, disks), wide arrays up to one for each device.
pub const IO_DEPTH_MAX: u16 = 64;
/// Smallest and largest window of one stream that may be asked for.
pub const WINDOW_BYTES_MIN: u64 = 4 << 10;
/// See [`WINDOW_BYTES_MIN`]: what TCP can express.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// Largest DSCP: six bits.
pub const DSCP_MAX: u8 = 63;
/// Name of a congestion control (`TCP_CA_NAME_MAX`, the final NUL not counted).
pub const CONGESTION_NAME_BYTES_MAX: usize = 15;

/// Pieces of one answer that a server may be ahead of its client: what a client keeps room for. 4 MiB of the usual
/// pieces of 256 KiB fill 40 ms at 800 Mbit/s.
pub const REPLIES_AHEAD_MAX: u32 = 16;

/// For so long, in milliseconds, a client may have a part of a transfer measured alone.
pub const MEASURE_MILLIS_MAX: u32 = 10_000;
/// With so many threads.
pub const MEASURE_THREADS_MAX: u16 = 64;
/// Rates in the answer.
pub const MEASURE_RATES_MAX: usize = 128;

/// Shortest and longest time from one window of a slot to the next, in microseconds: below a millisecond clocks and
/// threads are late by more than the window, beyond a minute a link would count as stalled.
pub const SLOT_PERIOD_MICROS_MIN: u64 = 1_000;
/// See [`SLOT_PERIOD_MICROS_MIN`].
pub const SLOT_PERIOD_MICROS_MAX: u64 = 60_000_000;
/// Longest deadline of a slot, in microseconds.
pub const SLOT_DEADLINE_MICROS_MAX: u64 = 600_000_000;
/// Slots of one server: each one that is asked for is compared with all.
pub const SLOTS_MAX: usize = 256;

/// Address that a server is to be sent to, `host:port`: the longest DNS name, and more.
pub const ADDRESS_BYTES_MAX: usize = 320;
/// Key of a guest with its certificate, PEM: those that movers make have below a KiB.
pub const GUEST_KEY_BYTES_MAX: usize = 16 << 10;
/// Bytes of the paths of all places that a guest may have: a server keeps them while it is let in.
pub const GUEST_PLACES_BYTES_MAX: usize = 64 << 10;
/// For so long, in seconds, a guest is let in: a week.
pub const GUEST_SECONDS_MAX: u32 = 7 * 86_400;

/// Data streams in one link.
pub const STREAMS_MAX: u16 = 256;
/// Transfers in one link at the same time.
pub const TRANSFERS_MAX: usize = 16;

/// Payload, inner header and tag of one sealed frame.
pub const FRAME_BYTES_MAX: usize = SEGMENT_BYTES_MAX as usize
    + PACK_FILES_MAX * crate::frame::PACK_ITEM_BYTES
    + crate::frame::INNER_BYTES
    + crate::frame::TAG_BYTES;

/// One key seals at most this many bytes: 2^32 blocks of AES, which keeps the attacker's advantage below
/// 2^-60 (RFC 9001 appendix B gives the bounds for AEAD_AES_128_GCM).
pub const KEY_BYTES_MAX: u64 = 64 << 30;

/// Certificate in a signed statement, DER. One that movers make has 400 bytes; with attributes of an authority, a few
/// KiB.
pub const CERTIFICATE_BYTES_MAX: usize = 16 << 10;

/// Token of an identity provider, which a stranger may make us read. Those with some hundred groups have a few KiB.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// One journal record.
pub const JOURNAL_RECORD_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

const _: () = assert!(ENTRIES_IN_FLIGHT_MAX < ENTRIES_UNHEARD_MAX);
const _: () = assert!(CHUNK_BYTES_MIN.is_power_of_two() && CHUNK_BYTES_MAX.is_power_of_two());
const _: () = assert!(SEGMENT_BYTES_MIN.is_power_of_two() && SEGMENT_BYTES_MAX.is_power_of_two());
const _: () = assert!(SEGMENT_BYTES_MIN <= CHUNK_BYTES_MIN && SEGMENT_BYTES_MAX <= CHUNK_BYTES_MAX);
// A subtree of BLAKE3 starts at a multiple of its own length and holds whole 1 KiB leaves.
const _: () = assert!(SEGMENT_BYTES_MIN.is_multiple_of(blake3::CHUNK_LEN as u64));
const _: () =
    assert!(PATH_BYTES_MAX + LINK_TARGET_BYTES_MAX + XATTR_BYTES_MAX + 16 * XATTRS_MAX < MESSAGE_BYTES_MAX);
const _: () = assert!(XATTRS_MAX < MESSAGE_XATTRS_MAX);
const _: () = assert!(PLACE_LEVELS_MAX * (NAME_BYTES_MAX + 1) <= PATH_BYTES_MAX);
const _: () = assert!(MESSAGE_DIGESTS_MAX * 32 < MESSAGE_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < u32::MAX as usize);
// A hello has two bytes for it.
const _: () = assert!(TOKEN_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(
    FRAME_METADATA_BYTES_MAX + DTYPE_BYTES_MAX + FRAME_NAME_BYTES_MAX + SHAPE_AXES_MAX * 10 + 256
        < ITEM_HEAD_BYTES_MAX
);
const _: () = assert!((ITEM_HEAD_BYTES_MAX as u64) < SEGMENT_BYTES_MIN);
// Each end of a range takes three bytes as a varint.
const _: () = assert!(SET_FRAMES_MAX < 1 << 21 && SET_RANGES_MAX * 6 + 64 < ITEM_HEAD_BYTES_MAX);
