//! Which figures fit which suite: one row for each.

use super::reading::Measure;
use crate::bench::suite::BEGINS;
use crate::bench::timeline::{CORES, RATE};
use crate::plot::Scale;

/// One figure of a suite.
pub struct Plan {
    pub suite: &'static str,
    /// Names its file: suite and this.
    pub name: &'static str,
    pub title: &'static str,
    /// Of the paper that it follows.
    pub after: &'static str,
    pub kind: Kind,
    /// One figure for each value of these parameters.
    pub apart: &'static [&'static str],
    /// Parameters of which only one value is shown; the table has the others.
    pub held: &'static [(&'static str, Hold)],
    /// What must be known to read it.
    pub note: &'static str,
}

/// Which value of a parameter is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hold {
    Smallest,
    Largest,
    /// The largest that is no larger than this.
    AtMost(f64),
}

pub enum Kind {
    /// Over a parameter.
    Over { x: &'static str, scale: Scale, measure: Measure },
    /// Bars by a parameter, or one for each series.
    Bars { groups: Option<&'static str>, measure: Measure },
    /// Over two parameters.
    Cells { rows: &'static str, columns: &'static str, measure: Measure },
    /// Shares of a distribution.
    Shares { distribution: &'static str },
    /// A distribution whose values came one after another, over time; of the first run.
    OverTime { distribution: &'static str },
    /// 001 Fig 9: fit on four points, the others predicted.
    Fit,
}

const fn plan(
    suite: &'static str,
    name: &'static str,
    title: &'static str,
    after: &'static str,
    kind: Kind,
) -> Plan {
    Plan { suite, name, title, after, kind, apart: &[], held: &[], note: "" }
}

const fn over(x: &'static str, scale: Scale, measure: Measure) -> Kind {
    Kind::Over { x, scale, measure }
}

const COPIES: &str = "Copies are timed from the start of the program until all is durable: connections, slow start and syncs are in it, and \
                      weigh the more the smaller the set is.";
const WITH_THE_START: &str = "A stream of TCP is measured once it runs, as iperf3 does. A copy is measured as a whole, with its connections and \
                              slow start: the farther, the more of its time they are, and of copies of 1 GiB up to a quarter. All runs of a \
                              case are in its point.";

const FAULTS: &str = "Bits are flipped in chunks of the finished copy, none on the way; the time is that of the copy and of its repair, without \
                      the damaging. A repair is a command of its own. Chunks it finds by reading both sides; damaged files the suite \
                      removes before it, and finding them is not in the time. The laws count the command too, as it is where nothing is \
                      damaged.";

const FAULTS_OVER_TIME: &str = "The first run. After the copy chunks are damaged, and what was damaged is repaired: by whole files, or by \
                                chunks, which are found by reading and digesting both sides.";

const COLD_STARTS: &str = "Each client opens its connections anew: TCP's slow start is in each transfer, also in those of scheduled \
                           starts; a larger initial window makes it shorter. The suite slots has streams that stand, in windows that are promised.";

/// Suites of `cargo xtask bench` that have figures: their results have the form of ours.
pub const OF_CHORE: &[&str] = &["objects-distance"];

/// All of them.
pub const PLANS: &[Plan] = &[
    Plan {
        note: "How far the worst measurement of a case was off, as a share of what it may be off by: 0.2 ms or 1 % of a round \
               trip time, 2 % of a rate, four standard deviations of a count. Up to 100 % is good.",
        ..plan(
            "path",
            "rtt",
            "The emulated path: how far round trip times are off",
            "the papers' paths",
            over("rtt", Scale::Steps, Measure::Number("share_of_the_tolerance")),
        )
    },
    plan(
        "path",
        "rate",
        "The emulated path: how far rates are off",
        "",
        over("rate", Scale::Steps, Measure::Number("share_of_the_tolerance")),
    ),
    plan(
        "path",
        "loss",
        "The emulated path: how far losses are off",
        "",
        over("loss", Scale::Steps, Measure::Number("share_of_the_tolerance")),
    ),
    Plan {
        note: WITH_THE_START,
        ..plan(
            "latency",
            "rate",
            "Throughput over distance: default and tuned buffers",
            "000 Fig 2",
            over("rtt", Scale::Linear, Measure::Rate),
        )
    },
    Plan {
        note: COPIES,
        ..plan(
            "sweep bulk",
            "rate",
            "Bulk: throughput by size of file",
            "000 Figs 5 and 8",
            over("file_size", Scale::Log2, Measure::Rate),
        )
    },
    plan("sweep bulk", "cpu", "Bulk: CPU by size of file", "", over("file_size", Scale::Log2, Measure::Cpu)),
    Plan {
        apart: &["rtt"],
        note: "000 Fig 9 mixes up the columns of its table, and the text has no numbers of it, so none stand beside these; here each \
               line is the rate at its own round-trip time.",
        ..plan(
            "sweep streaming",
            "rate",
            "Streaming: throughput by final size of a growing file",
            "000 Figs 6 and 9",
            over("file_size", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        apart: &["rtt"],
        note: "How long after the writer had written its last byte the copy was whole.",
        ..plan(
            "sweep streaming",
            "end",
            "Streaming: how far behind the writer it ends",
            "000 section II-B",
            over("file_size", Scale::Log2, Measure::Number("lag_at_the_end")),
        )
    },
    Plan {
        note: "Windows are bounded by the hosts' buffers, as much smaller than the paper's as the line is.",
        ..plan(
            "streams",
            "rate",
            "Streams of one window: how many fill the line",
            "004 Fig 2",
            over("streams", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        apart: &["rtt"],
        ..plan(
            "cca",
            "rate",
            "Congestion controls: what loss leaves of a line",
            "000 section III-B",
            over("loss", Scale::Steps, Measure::Rate),
        )
    },
    Plan {
        apart: &["way", "file_size"],
        note: "Up, a copy is timed until the program ends; down, until the files are durable. Each program has as many requests \
               under way as it has by itself, or as its documentation advises.",
        ..plan(
            "objects-distance",
            "rate",
            "Objects into a bucket and out of it, over distance",
            "000 Fig 11",
            over("rtt", Scale::Linear, Measure::Rate),
        )
    },
    Plan {
        apart: &["direction", "disk"],
        held: &[("request_size", Hold::Largest)],
        ..plan(
            "order",
            "threads",
            "Order of requests, over threads",
            "004 Figs 3 and 4",
            over("threads", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        apart: &["direction", "disk"],
        held: &[("threads", Hold::Largest)],
        ..plan(
            "order",
            "requests",
            "Order of requests, over their size",
            "004 section IV",
            over("request_size", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        held: &[("depth", Hold::Smallest)],
        ..plan(
            "concurrency",
            "streams",
            "Throughput over streams, by files at once",
            "001 Fig 4",
            over("streams", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        held: &[("depth", Hold::Smallest)],
        ..plan(
            "concurrency",
            "files",
            "Throughput over files at once, by streams",
            "001 Fig 5",
            over("concurrency", Scale::Log2, Measure::Rate),
        )
    },
    plan(
        "concurrency",
        "depth",
        "Throughput over depth",
        "001 Fig 5",
        over("depth", Scale::Log2, Measure::Rate),
    ),
    Plan {
        held: &[("depth", Hold::Smallest)],
        ..plan(
            "concurrency",
            "table",
            "Files at once and streams",
            "001 Figs 4 and 5",
            Kind::Cells { rows: "concurrency", columns: "streams", measure: Measure::Rate },
        )
    },
    Plan {
        note: "thalweg checks chunks beside their transfer and sends small files together, so that no check of a file is left for \
               the end. A mover that checks whole files is in the suite whole-files.",
        ..plan("files", "fit", "The same data in more files: fitted and measured", "001 Eq 6", Kind::Fit)
    },
    Plan {
        note: "Each file by a command of its own, one at a time or several. Both copies of a file are read whole and digested when \
               it has its name, beside the transfer of the next, at a rate that is set above that of the line, unless the check is \
               free: so a_ck < a_trs holds by construction. The time is until the last is checked.",
        ..plan(
            "whole-files",
            "fit",
            "Whole files, checked after their transfer: fitted and measured",
            "001 Fig 9, Eq 6",
            Kind::Fit,
        )
    },
    Plan {
        note: FAULTS,
        ..plan(
            "faults",
            "rate",
            "Throughput of a copy that is damaged when it is made, and repaired",
            "001 Figs 6 and 7, Eqs 1 and 2",
            over("damaged_share", Scale::Linear, Measure::Rate),
        )
    },
    Plan {
        note: FAULTS,
        ..plan(
            "faults",
            "concurrency",
            "Throughput of a copy that is damaged and repaired, over files at once",
            "001 Fig 7",
            over("concurrency", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        note: "With all headers, what the queue dropped, and what the command sends that repairs where nothing is damaged.",
        ..plan(
            "faults",
            "resent",
            "Bytes that were sent again",
            "001 Eqs 1 and 2",
            over("damaged_share", Scale::Linear, Measure::Number("sent_again_on_the_wire")),
        )
    },
    Plan {
        held: &[("damaged_share", Hold::Largest)],
        note: FAULTS_OVER_TIME,
        ..plan(
            "faults",
            "rate-over-time",
            "What the line carries while a copy is made, damaged and repaired",
            "001 Fig 6",
            Kind::OverTime { distribution: RATE },
        )
    },
    Plan {
        held: &[("damaged_share", Hold::Largest)],
        note: FAULTS_OVER_TIME,
        ..plan(
            "faults",
            "cpu-over-time",
            "Cores that are busy meanwhile",
            "001 Fig 6",
            Kind::OverTime { distribution: CORES },
        )
    },
    plan(
        "layout",
        "time",
        "Reading by layout",
        "002 Table II",
        Kind::Bars { groups: Some("order"), measure: Measure::Time },
    ),
    Plan {
        note: "The node reads what it passes on from the storage's host, and keeps nothing; what it stores it copies on when all of \
               it is durable there.",
        ..plan(
            "hop",
            "time",
            "From where the data are, or through one more host",
            "002 Table I",
            Kind::Bars { groups: None, measure: Measure::Time },
        )
    },
    Plan {
        note: COLD_STARTS,
        apart: &[BEGINS],
        ..plan(
            "congest",
            "worst",
            "The longest transfer, by load",
            "003 Fig 2",
            over("load", Scale::Linear, Measure::Worst("transfer_time")),
        )
    },
    Plan {
        note: COLD_STARTS,
        apart: &[BEGINS],
        ..plan(
            "congest",
            "score",
            "Streaming speed score: the longest transfer over the ideal one",
            "003 Eq 11",
            over("load", Scale::Linear, Measure::Number("speed_score")),
        )
    },
    Plan {
        note: COLD_STARTS,
        apart: &[BEGINS],
        // More than the line can carry has no tail but a queue that grows.
        held: &[("load", Hold::AtMost(1.0))],
        ..plan(
            "congest",
            "shares",
            "How long transfers take",
            "003 Fig 3",
            Kind::Shares { distribution: "transfer_time" },
        )
    },
    Plan {
        note: "From when a burst may be sent, in slots from when its window opens, until all of it is written at the far side. In slots \
               producers that cannot be promised their deadline are refused: the others are what is shown.",
        ..plan(
            "slots",
            "worst",
            "Producers that share a link: the longest transfer, by load",
            "003 Fig 2",
            over("load", Scale::Linear, Measure::Worst("transfer_time")),
        )
    },
    Plan {
        note: "From when a burst is ready, so the wait for its window is in it.",
        ..plan(
            "slots",
            "lag",
            "Producers that share a link: the latest burst, by load",
            "003 Fig 2",
            over("load", Scale::Linear, Measure::Worst("lag")),
        )
    },
    Plan {
        held: &[("load", Hold::AtMost(1.0))],
        ..plan(
            "slots",
            "shares",
            "How long bursts take",
            "003 Fig 3",
            Kind::Shares { distribution: "transfer_time" },
        )
    },
    Plan {
        apart: &["direction"],
        held: &[("depth", Hold::Largest)],
        ..plan(
            "storage",
            "rate",
            "Storage: throughput by size of a request",
            "000 section III-D",
            over("request_size", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        apart: &["direction"],
        held: &[("depth", Hold::Largest)],
        ..plan(
            "storage",
            "latency",
            "Storage: latency by size of a request",
            "000 section III-D",
            over("request_size", Scale::Log2, Measure::Middle("request_latency")),
        )
    },
    Plan {
        apart: &["direction"],
        held: &[("request_size", Hold::Largest)],
        ..plan(
            "storage",
            "depth",
            "Storage: throughput by depth",
            "000 section III-D",
            over("depth", Scale::Log2, Measure::Rate),
        )
    },
    Plan {
        apart: &["period"],
        note: "From the first frame until all are verified and durable.",
        ..plan(
            "frames",
            "time",
            "A scan, in files or streamed: until it is there",
            "003 Fig 4",
            Kind::Bars { groups: None, measure: Measure::Time },
        )
    },
    Plan {
        apart: &["period"],
        note: "From the last frame, or when it was due, until all are verified and durable.",
        ..plan(
            "frames",
            "after",
            "A scan, in files or streamed: what is left to do after its last frame",
            "003 Fig 4",
            Kind::Bars { groups: None, measure: Measure::Number("after_last_frame") },
        )
    },
    Plan {
        note: "The middle of the range against what the copy took. By a probe: the first copy of a way. By earlier copies: after \
               one of them in the first run, after two in the second, and so on.",
        ..plan(
            "predict",
            "off",
            "Predictions: how far their middle is off",
            "",
            Kind::Bars { groups: Some("shape"), measure: Measure::Number("off_by") },
        )
    },
    Plan {
        apart: &["message_size"],
        ..plan(
            "lag",
            "shares",
            "How late messages are readable far away",
            "003 section 2.1",
            Kind::Shares { distribution: "lag" },
        )
    },
    plan(
        "lag",
        "p99",
        "How late 99 of 100 messages and frames are at most",
        "003 section 2.1",
        Kind::Bars { groups: Some("rtt"), measure: Measure::Number("lag_p99") },
    ),
    plan(
        "lag",
        "worst",
        "How late the latest message or frame is",
        "003 section 2.1",
        Kind::Bars { groups: Some("rtt"), measure: Measure::Number("lag_max") },
    ),
];
