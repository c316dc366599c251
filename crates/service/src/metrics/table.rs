//! Every metric that there is: its name, what kind it is, what its labels are called, what it says. The page that is
//! told, docs/reference/metrics.md and the files of packaging/prometheus go by this table.
//!
//! A name ends with its unit, of a counter with `_total` behind that. Names are never given another meaning.

/// See the module.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Which kind.
    pub kind: Kind,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
    /// What it says, in a line.
    pub help: &'static str,
}

/// What a metric does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows, and begins at zero with the daemon.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts what was seen, by its size.
    Histogram,
}

impl Kind {
    /// The word for it in both forms of the text.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

/// Of what belongs to an export.
const AT_EXPORT: &[&str] = &["export", "kind", "direction"];

pub(super) static BUILD: Metric =
    gauge("thalweg_build_info", &["version", "commit"], "Always 1; the labels say what runs.");
pub(super) static START: Metric =
    gauge("thalweg_start_time_seconds", &[], "When the daemon began, in seconds since 1970.");
pub(super) static SESSIONS: Metric =
    gauge("thalweg_sessions", &[], "Sessions that are not over, with a link or waited for.");
pub(super) static SESSIONS_LIMIT: Metric =
    gauge("thalweg_sessions_limit", &[], "The most sessions at a time (--max-sessions).");
pub(super) static STREAMS: Metric = gauge("thalweg_streams", &[], "Data streams that stand.");
pub(super) static STREAMS_LIMIT: Metric =
    gauge("thalweg_streams_limit", &[], "The most data streams at a time.");
pub(super) static REFUSED: Metric =
    counter("thalweg_refused_total", &["reason"], "Connections that were turned away.");
pub(super) static BEGUN: Metric =
    counter("thalweg_transfers_begun_total", &["kind", "direction"], "Transfers that were asked for.");
pub(super) static ENDED: Metric = counter(
    "thalweg_transfers_ended_total",
    &["kind", "direction", "outcome"],
    "Transfers that are over, by the outcome that the log has; `replaced` goes on by another link.",
);
pub(super) static RUNNING: Metric =
    gauge("thalweg_transfers_running", &["kind", "direction"], "Transfers that are under way.");
pub(super) static BYTES: Metric = counter(
    "thalweg_transfer_bytes_total",
    AT_EXPORT,
    "Content bytes that are verified at the destination, those found from an earlier attempt among them; not those \
     that were only compared with a file there, and are the same.",
);
pub(super) static ENTRIES: Metric = counter(
    "thalweg_transfer_entries_total",
    AT_EXPORT,
    "Files, directories, links or flows that are done, counted when their transfer is over; of one that failed all \
     that came to an end, also unchanged and failed ones.",
);
pub(super) static FAILED: Metric = counter(
    "thalweg_transfer_entries_failed_total",
    AT_EXPORT,
    "Entries that failed, counted when their transfer is over.",
);
pub(super) static DAMAGED: Metric = counter(
    "thalweg_transfer_entries_damaged_total",
    AT_EXPORT,
    "Entries that failed because they were damaged and could not be repaired, counted when their transfer is over.",
);
pub(super) static RESUMED: Metric = counter(
    "thalweg_transfer_resumed_bytes_total",
    AT_EXPORT,
    "Content bytes that were found from an earlier attempt and not sent again.",
);
pub(super) static REPAIRED: Metric = counter(
    "thalweg_chunks_repaired_total",
    AT_EXPORT,
    "Chunks of which the digest was wrong, and which were sent again. Of streams those that ended in order.",
);
pub(super) static TICKET_BYTES: Metric = counter(
    "thalweg_ticket_bytes_total",
    &["ticket", "direction"],
    "The bytes of thalweg_transfer_bytes_total by ticket; of more than 64 tickets the others are `other`.",
);
pub(super) static REQUESTS: Metric = counter(
    "thalweg_requests_total",
    &["kind", "outcome"],
    "What was read, digested or removed without a transfer, as lines of the log.",
);
pub(super) static REQUEST_BYTES: Metric =
    counter("thalweg_request_bytes_total", &["kind"], "Content bytes of these.");
pub(super) static WIRE_SENT: Metric = counter(
    "thalweg_wire_sent_bytes_total",
    &[],
    "Bytes of data streams that TCP sent, again-sent ones too.",
);
pub(super) static WIRE_RECEIVED: Metric =
    counter("thalweg_wire_received_bytes_total", &[], "Bytes of data streams that came.");
pub(super) static WIRE_AGAIN: Metric =
    counter("thalweg_wire_retransmitted_bytes_total", &[], "Bytes of data streams that TCP sent again.");
pub(super) static RTT: Metric = Metric {
    name: "thalweg_stream_rtt_seconds",
    kind: Kind::Histogram,
    labels: &[],
    help: "Smoothed round-trip times of data streams, each looked at once a second.",
};
pub(super) static BUSY: Metric = counter(
    "thalweg_stage_busy_seconds_total",
    &["side", "stage"],
    "Time at work in each stage of the daemon's side of transfers, all threads together; not of frames.",
);
pub(super) static NARROWEST: Metric = gauge(
    "thalweg_narrowest_transfers",
    &["stage", "place"],
    "Transfers under way of which this stage is the narrowest, as `thalweg why` names it.",
);
pub(super) static BUFFERS: Metric =
    gauge("thalweg_buffer_bytes", &[], "Memory that buffers take now, in bytes.");
pub(super) static BUFFERS_LIMIT: Metric = gauge(
    "thalweg_buffer_limit_bytes",
    &[],
    "The most that they may take (--memory); absent without a bound.",
);
pub(super) static BUFFERS_REFUSED: Metric =
    counter("thalweg_buffers_refused_total", &[], "Buffers that were refused because of that bound.");
pub(super) static LIMIT: Metric = gauge(
    "thalweg_limit_bytes_per_second",
    &[],
    "What all sessions together may move now (--bwlimit); absent without a limit.",
);
pub(super) static EXPORT_LIMIT: Metric = gauge(
    "thalweg_export_limit_bytes_per_second",
    &["export"],
    "What all transfers of an export may move; absent without a limit.",
);
pub(super) static FREE: Metric =
    gauge("thalweg_export_free_bytes", &["export"], "Free space on the file system of an export.");
pub(super) static SIZE: Metric =
    gauge("thalweg_export_size_bytes", &["export"], "Size of the file system of an export.");
pub(super) static SPARE: Metric = gauge(
    "thalweg_export_spare_bytes",
    &["export"],
    "What of the free space clients may take: less by what min-free keeps; absent where they may only read.",
);
pub(super) static ANSWERS: Metric = gauge(
    "thalweg_export_ok",
    &["export"],
    "1 if the file system of an export said how much is free, 0 if it answered with an error.",
);
pub(super) static LOOKED: Metric = gauge(
    "thalweg_exports_looked_at_timestamp_seconds",
    &[],
    "When these four were read, in seconds since 1970; it stays behind if a file system stands still.",
);
pub(super) static CHANNELS: Metric = gauge("thalweg_frames_channels", &[], "Channels of frames.");
pub(super) static PRODUCERS: Metric =
    gauge("thalweg_frames_producers", &[], "Producers that channels know, those that are over among them.");
pub(super) static CONSUMERS: Metric =
    gauge("thalweg_frames_consumers", &[], "Consumers of frames, each group as one.");
pub(super) static FRAMES_MEMORY: Metric =
    gauge("thalweg_frames_memory_bytes", &[], "Frames that channels hold in memory, in bytes.");
pub(super) static FRAMES_MEMORY_LIMIT: Metric =
    gauge("thalweg_frames_memory_limit_bytes", &[], "The most of that (--frames-memory).");
pub(super) static SPILLED: Metric =
    gauge("thalweg_frames_spill_bytes", &[], "Spill logs of channels, in bytes.");
pub(super) static TAKEN: Metric =
    counter("thalweg_frames_taken_total", &[], "Frames that consumers took, each time one did.");
pub(super) static LOST: Metric = counter(
    "thalweg_frames_lost_total",
    &["reason"],
    "Frames that a consumer did not get and was told so, by reason.",
);
pub(super) static SLOTS: Metric =
    gauge("thalweg_slots_taken", &[], "Slots that are taken; absent without --slots.");

/// All of them, in the order in which they are told.
pub static TABLE: [&Metric; 44] = [
    &BUILD,
    &START,
    &SESSIONS,
    &SESSIONS_LIMIT,
    &STREAMS,
    &STREAMS_LIMIT,
    &REFUSED,
    &BEGUN,
    &ENDED,
    &RUNNING,
    &BYTES,
    &ENTRIES,
    &FAILED,
    &DAMAGED,
    &RESUMED,
    &REPAIRED,
    &TICKET_BYTES,
    &REQUESTS,
    &REQUEST_BYTES,
    &WIRE_SENT,
    &WIRE_RECEIVED,
    &WIRE_AGAIN,
    &RTT,
    &BUSY,
    &NARROWEST,
    &BUFFERS,
    &BUFFERS_LIMIT,
    &BUFFERS_REFUSED,
    &LIMIT,
    &EXPORT_LIMIT,
    &FREE,
    &SIZE,
    &SPARE,
    &ANSWERS,
    &LOOKED,
    &CHANNELS,
    &PRODUCERS,
    &CONSUMERS,
    &FRAMES_MEMORY,
    &FRAMES_MEMORY_LIMIT,
    &SPILLED,
    &TAKEN,
    &LOST,
    &SLOTS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Dashboards and alerts of others rest on them.
    #[test]
    fn names_kinds_and_labels_are_those_of_the_golden_file() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics/names.txt");
        let mut names = String::from(
            "# Metrics. Made by `THALWEG_GOLDEN=write cargo test -p thalweg-service metrics`.\n\n",
        );
        for Metric { name, kind, labels, .. } in TABLE {
            let words: Vec<&str> = [kind.word(), *name].into_iter().chain(labels.iter().copied()).collect();
            let _ = writeln!(names, "{}", words.join(" "));
        }
        if std::env::var_os("THALWEG_GOLDEN").is_some_and(|value| value == "write") {
            std::fs::write(path, &names).unwrap();
        }
        let known = std::fs::read_to_string(path).unwrap();
        assert_eq!(names, known, "names are public: they are added, and never given another meaning");
    }

    #[test]
    fn counters_and_nothing_else_end_as_counters_do_and_names_are_given_once() {
        for (at, metric) in TABLE.iter().enumerate() {
            let ends = metric.name.ends_with("_total");
            assert_eq!(ends, metric.kind == Kind::Counter, "{}", metric.name);
            assert!(TABLE[..at].iter().all(|other| other.name != metric.name), "{}", metric.name);
            assert!(!metric.help.contains('\n') && metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
