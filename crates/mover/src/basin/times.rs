//! What a transfer took, by the terms of [`crate::model::prediction`].
//!
//! Start and end are what was seen from outside: until the first content stood verified, and after the last. What is
//! between is shared out between entries and bytes as the busiest stage that works on entries and the busiest that
//! works on bytes would share it if they took turns. What the first content itself took, at the rate of the rest, is
//! time of bytes and not of the start: otherwise who predicts by these terms would count it twice. Where all or most of
//! it came in one lump, the rest says too little of that: it took no less than the busiest stage on its way worked for
//! it.
//!
//! Where there was no content to speak of, nothing shows from outside where start and end were: they are taken to have
//! been as long as usual, and all else is time of entries, no less than their busiest stage worked.

use super::{Evidence, rtt_seconds, width};
use crate::history;
use crate::model::prediction::{self, Taken};
use crate::stage::Stage;
use serde::{Deserialize, Serialize};

/// What was seen of content arriving.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Passage {
    /// Seconds until the first content stood verified.
    pub first_s: f64,
    /// Content bytes that stood verified then.
    pub first_bytes: u64,
    /// Seconds until the last did.
    pub last_s: f64,
    /// All of the time, in seconds.
    pub seconds: f64,
}

impl Passage {
    /// Seconds between the first content and the last.
    pub fn content_s(&self) -> f64 {
        self.last_s - self.first_s
    }
}

/// Stages that work on entries rather than on bytes.
const OF_ENTRIES: [Stage; 6] =
    [Stage::Scan, Stage::Open, Stage::Decide, Stage::Create, Stage::Finish, Stage::Conclude];

/// Stages that content went through when it stands verified.
const OF_COMING: [Stage; 8] = [
    Stage::Read,
    Stage::Digest,
    Stage::Compress,
    Stage::Send,
    Stage::Receive,
    Stage::Expand,
    Stage::Verify,
    Stage::Write,
];

/// Shares out the time.
pub fn taken(evidence: &Evidence, passage: &Passage) -> Taken {
    if history::is_bare(evidence.content_bytes() as f64, evidence.entries as f64) {
        return of_entries_alone(evidence, passage.seconds);
    }
    let last_s = passage.last_s.clamp(0.0, passage.seconds);
    let first_s = passage.first_s.clamp(0.0, last_s);
    let (mut entries, mut bytes, mut back, mut coming) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    for width in width::widths(evidence) {
        let is = |stage: Stage| stage.name() == width.stage;
        match () {
            () if is(Stage::ReadBack) => back = width.busy,
            // It says nothing of how content comes.
            () if is(Stage::Reread) => {}
            () if OF_ENTRIES.into_iter().any(is) => entries = entries.max(width.busy),
            () => bytes = bytes.max(width.busy),
        }
        if OF_COMING.into_iter().any(is) {
            coming = coming.max(width.busy);
        }
    }
    let between = last_s - first_s;
    let all = entries + bytes;
    let share = if all > 0.0 { entries / all } else { 0.0 };
    let back_s = (back * evidence.seconds()).min(between);
    let left = between - back_s;
    let bytes_s = left * (1.0 - share);
    let rest_bytes = evidence.content_bytes().saturating_sub(passage.first_bytes);
    let by_rest_s = match rest_bytes {
        // All of it was there at one look.
        0 => 0.0,
        rest => bytes_s * passage.first_bytes as f64 / rest as f64,
    };
    let lump = passage.first_bytes as f64 / evidence.content_bytes().max(1) as f64;
    let early_s = by_rest_s.max(coming * evidence.seconds() * lump.min(1.0)).min(first_s);
    Taken {
        start_s: first_s - early_s,
        entries_s: left * share,
        bytes_s: bytes_s + early_s,
        back_s,
        end_s: passage.seconds - last_s,
    }
}

/// Without content to go by.
fn of_entries_alone(evidence: &Evidence, seconds: f64) -> Taken {
    let [start_s, end_s] = prediction::usual_s(rtt_seconds(evidence));
    let is_of_entries = |width: &width::Width| OF_ENTRIES.iter().any(|stage| stage.name() == width.stage);
    let widths = width::widths(evidence);
    let busy = widths.iter().filter(|width| is_of_entries(width)).map(|width| width.busy).fold(0.0, f64::max);
    let entries_s = (seconds - start_s - end_s).max(busy * evidence.seconds()).min(seconds);
    let left_s = (seconds - entries_s).max(0.0);
    let start_s = left_s * start_s / (start_s + end_s);
    Taken { start_s, entries_s, end_s: left_s - start_s, ..Taken::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::account::{SideAccounts, StageAccount};

    fn row(stage: Stage, busy_s: u64) -> StageAccount {
        let busy_nanos = busy_s * 1_000_000_000;
        StageAccount { stage: stage as u8, busy_nanos, threads: 1, ..StageAccount::default() }
    }

    /// Ten seconds, of which 1 before and 1 after; names take 6 of them, writing 2: three quarters of 8 s are entries.
    #[test]
    fn the_time_between_is_shared_out_by_the_busiest_of_both_kinds() {
        let rows = vec![row(Stage::Write, 2), row(Stage::Finish, 6), row(Stage::Verify, 1)];
        let evidence = Evidence {
            elapsed_nanos: 10_000_000_000,
            bytes: 1000,
            receiver: SideAccounts { stages: rows, ..SideAccounts::default() },
            ..Evidence::default()
        };
        let passage = Passage { first_s: 1.0, first_bytes: 0, last_s: 9.0, seconds: 10.0 };
        let taken = taken(&evidence, &passage);
        assert_eq!((taken.start_s, taken.end_s, taken.back_s), (1.0, 1.0, 0.0));
        assert!((taken.entries_s - 6.0).abs() < 1e-9 && (taken.bytes_s - 2.0).abs() < 1e-9);
        assert!((taken.seconds() - 10.0).abs() < 1e-9);
    }

    /// 0.5 s of a start and 3 MB at 1 MB/s, of which the first megabyte shows as a whole.
    #[test]
    fn what_the_first_content_took_on_the_way_is_time_of_bytes() {
        let rows = vec![row(Stage::Write, 2)];
        let evidence = Evidence {
            elapsed_nanos: 3_600_000_000,
            bytes: 3_000_000,
            receiver: SideAccounts { stages: rows, ..SideAccounts::default() },
            ..Evidence::default()
        };
        let passage = Passage { first_s: 1.5, first_bytes: 1_000_000, last_s: 3.5, seconds: 3.6 };
        let seen = taken(&evidence, &passage);
        assert!((seen.start_s - 0.5).abs() < 1e-9 && (seen.bytes_s - 3.0).abs() < 1e-9, "{seen:?}");
        assert!((seen.seconds() - 3.6).abs() < 1e-9);
        // Never more than there was.
        let late = taken(&evidence, &Passage { first_bytes: 2_900_000, ..passage });
        assert_eq!(late.start_s, 0.0);
        assert!((late.seconds() - 3.6).abs() < 1e-9);
    }

    /// Seen of 64 MiB within one machine: at the first look all of it stood there, and the writers had worked for 0.2
    /// s.
    #[test]
    fn a_lump_took_no_less_than_the_busiest_stage_worked_for_it() {
        let row = |stage: Stage, busy_nanos| StageAccount {
            stage: stage as u8,
            busy_nanos,
            threads: 1,
            ..StageAccount::default()
        };
        let evidence = |rows| Evidence {
            elapsed_nanos: 500_000_000,
            bytes: 1 << 26,
            receiver: SideAccounts { stages: rows, ..SideAccounts::default() },
            ..Evidence::default()
        };
        // A sync that came afterwards is no time of its coming.
        let rows = vec![row(Stage::Write, 200_000_000), row(Stage::Sync, 300_000_000)];
        let passage = Passage { first_s: 0.3, first_bytes: 1 << 26, last_s: 0.3, seconds: 0.5 };
        let seen = taken(&evidence(rows), &passage);
        assert!((seen.start_s - 0.1).abs() < 1e-9 && (seen.bytes_s - 0.2).abs() < 1e-9, "{seen:?}");
        assert!((seen.end_s - 0.2).abs() < 1e-9 && (seen.seconds() - 0.5).abs() < 1e-9);
        // Without an account of it, nothing says what it took.
        assert_eq!(taken(&evidence(Vec::new()), &passage).start_s, 0.3);
    }

    /// 100,000 links in 20 s; and 1,000 in half a second, of which names took three fifths.
    #[test]
    fn without_content_all_is_time_of_entries_but_a_usual_start_and_end() {
        let of = |bytes: u64, entries: u64, nanos: u64, busy_nanos: u64| {
            let names = StageAccount { busy_nanos, ..row(Stage::Finish, 0) };
            let evidence = Evidence {
                elapsed_nanos: nanos,
                bytes,
                entries,
                receiver: SideAccounts { stages: vec![names], ..SideAccounts::default() },
                ..Evidence::default()
            };
            let seconds = nanos as f64 / 1e9;
            let passage = Passage { first_s: seconds, last_s: seconds, seconds, ..Passage::default() };
            let taken = taken(&evidence, &passage);
            assert!((taken.seconds() - seconds).abs() < 1e-9, "{taken:?}");
            taken
        };
        for bytes in [0, 10] {
            let many = of(bytes, 100_000, 20_000_000_000, 12_000_000_000);
            assert!((many.start_s - 0.1).abs() < 1e-9 && (many.entries_s - 19.4).abs() < 1e-9, "{many:?}");
        }
        let few = of(0, 1000, 500_000_000, 300_000_000);
        assert!((few.entries_s - 0.3).abs() < 1e-9 && few.start_s < 0.04, "{few:?}");
        // Content of a size that is usual for small files shows where start and end were.
        assert_eq!(of(100_000_000, 100_000, 20_000_000_000, 12_000_000_000).end_s, 0.0);
    }

    #[test]
    fn whatever_was_seen_the_terms_are_the_whole() {
        let odd = Passage { first_s: 5.0, first_bytes: 0, last_s: 3.0, seconds: 2.0 };
        let taken = taken(&Evidence::default(), &odd);
        assert!((taken.seconds() - 2.0).abs() < 1e-9 && taken.entries_s == 0.0);
    }
}
