//! `storage`: throughput and latency of a disk by size of request, depth, way, order and allocation, reading and
//! writing (004, its storage profiler; the storage rule of 000 section III-D: throughput above the target rate *and*
//! low latency, writes narrower than reads).

use super::{MIB, ON_THIS_MACHINE, Planned, Suite, Takes, Values, bytes, count, scaled, size};
use crate::bench::record::{PathKind, Sample};
use crate::bench::requests::Load;
use crate::bench::{Bench, Prepared, Wishes, stopped};
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_mover::failure::{Result, of_io};

pub const SUITE: Suite = Suite {
    name: "storage",
    asks: "what does a disk do, by request, depth, way and order, and how long does each request take? (000 section III-D, 004)",
    runs: 3,
    budget_bytes: 256 * MIB,
    takes: Takes {
        time: Values::One,
        target: Values::One,
        seed: Values::No,
        program: Values::No,
        budget_bytes_min: REQUESTS[0],
        ..ON_THIS_MACHINE
    },
    prepare,
    needs: super::nothing,
    plan,
    run,
};

/// Names in samples that the storage rule goes by.
pub const TARGET: &str = "target_rate";
pub const LATENCY: &str = "request_latency";

/// The way past the page cache: what the rule judges. A write into the cache takes as long as a copy in memory.
pub const DIRECT: &str = "direct";

/// 000 section III-D asks for low latency and has no figure; a disk that answers 99 of 100 requests within this time
/// keeps a burst of 1 Gbit/s in 1.25 MB of buffers.
const LATENCY_S_MAX: f64 = 0.01;

/// So soon 99 of 100 requests are to be answered: besides [`LATENCY_S_MAX`], a request may wait for the others that are
/// in flight as long as these take at the target rate. By Little's law they take that on a disk that has just this
/// rate, however quick it is with one request alone.
pub fn latency_s_max(request_bytes: f64, depth: f64, target_bits_per_s: f64) -> f64 {
    LATENCY_S_MAX + (depth - 1.0) * request_bytes * 8.0 / target_bits_per_s
}

/// How long each case asks the disk.
const TIME: Duration = Duration::from_secs(2);

/// The file that is read is written for so long at least, unless all of it is there before.
const FILL_TIME_MIN: Duration = Duration::from_secs(10);

/// Latencies that a sample keeps: with several hundred samples of [`VALUES_MAX`](crate::bench::record::VALUES_MAX) a
/// result would take some 30 MB. P99 is off by a quarter of a per cent of their number at most.
pub const LATENCIES_MAX: usize = 400;

const REQUESTS: [u64; 5] = [4 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB];
const DEPTHS: [u32; 3] = [1, 4, 16];

/// `there_bytes`: what can be read. Behind it there are no data, only space for them, of which no disk is asked.
fn cases(data_bytes: u64, there_bytes: u64) -> Vec<Load> {
    let mut cases = Vec::new();
    for request_bytes in REQUESTS.into_iter().filter(|request| *request <= data_bytes) {
        for depth in DEPTHS {
            for is_direct in [true, false] {
                for is_sequential in [true, false] {
                    let load = |writes, is_preallocated| Load {
                        writes,
                        request_bytes,
                        depth,
                        is_direct,
                        is_sequential,
                        is_preallocated,
                        bytes: if writes { data_bytes } else { there_bytes },
                    };
                    if request_bytes <= there_bytes {
                        cases.push(load(false, false));
                    }
                    cases.push(load(true, true));
                    // Anywhere in a file that has no space yet, each request makes the file system look for some.
                    if is_sequential {
                        cases.push(load(true, false));
                    }
                }
            }
        }
    }
    cases
}

/// The sample with the case's name and parameters.
fn told_in(load: &Load, sample: Sample) -> Sample {
    let verb = if load.writes { "write" } else { "read" };
    let way = if load.is_direct { DIRECT } else { "cached" };
    let order = if load.is_sequential { "sequential" } else { "scattered" };
    let sample = Sample { series: format!("{verb}, {way}, {order}"), ..sample }
        .with("direction", verb.into())
        .with("way", way.into())
        .with("order", order.into())
        .with("request_size", bytes(load.request_bytes))
        .with("depth", count(load.depth));
    let space = if load.is_preallocated { "reserved before" } else { "as it comes" };
    if load.writes { sample.with("space", space.into()) } else { sample }
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let data_bytes = SUITE.budget_bytes(wishes);
    let of = |load: &Load| {
        let mut left_out_as = Vec::new();
        if load.is_direct {
            left_out_as.extend([NOT_PAST.to_owned(), not_past(load.request_bytes)]);
        }
        // A disk may have been too slow to write one.
        if !load.writes {
            left_out_as.push(read_in_part(data_bytes));
        }
        Planned::of(told_in(load, Sample::default()), left_out_as)
    };
    cases(data_bytes, data_bytes).iter().map(of).collect()
}

/// What is left out where a file system takes no requests past the page cache.
const NOT_PAST: &str = "requests past the page cache";

/// The same where it takes none of this size.
fn not_past(request_bytes: u64) -> String {
    format!("requests of {} past the page cache", size(request_bytes))
}

/// What is left out where a disk took less in its time.
fn read_in_part(data_bytes: u64) -> String {
    format!("reading {} MiB", data_bytes >> 20)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Ok(Prepared {
        path: PathKind::Disk,
        encryption: "none".to_owned(),
        verification: "none".to_owned(),
        changes: vec![scaled("data of a case", "some 100 GiB (004 section III)", {
            let time = wishes.time.unwrap_or(TIME).as_secs_f64();
            format!("{}, gone over again for {time} s", size(SUITE.budget_bytes(wishes)))
        })],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (data_bytes, wishes) = (bench.budget_bytes(), bench.wishes);
    let (time, stop) = (wishes.time.unwrap_or(TIME), &*wishes.stop);
    bench.workspace.needs(3 * data_bytes)?;
    let (read, written) = (bench.workspace.path("read"), bench.workspace.path("written"));
    let failed = |error: std::io::Error| of_io("ask the disk", &error);
    let fill = Load {
        writes: true,
        request_bytes: fitting(data_bytes),
        depth: 1,
        is_direct: false,
        is_sequential: true,
        is_preallocated: true,
        bytes: data_bytes,
    };
    let fill_time = time.max(FILL_TIME_MIN);
    let there_bytes = fill.once(&read, fill_time, stop).map_err(failed)?.bytes;
    if stop.load(Ordering::Relaxed) {
        return Err(stopped());
    }
    if there_bytes < data_bytes {
        let seconds = fill_time.as_secs_f64();
        let why = format!("the disk took {} MiB in {seconds} s; these are read", there_bytes >> 20);
        bench.leave_out(&read_in_part(data_bytes), &why)?;
    }
    bench.take_turns(cases(data_bytes, there_bytes), |bench, run, load| {
        // Caches are passed by or dropped, so the first request is as good as any.
        if run == 0 {
            return Ok(None);
        }
        bench.workspace.settle()?;
        let timed = match load.run(if load.writes { &written } else { &read }, time, stop) {
            Ok(timed) => timed,
            Err(error) => {
                let Some((what, why)) = refused(load, &error) else { return Err(failed(error)) };
                bench.leave_out(&what, &why)?;
                return Ok(None);
            }
        };
        // What was cut off is no sample.
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let sample = Sample {
            bytes: timed.bytes,
            files: 1,
            wall_s: timed.wall_s,
            cpu_s: Some(timed.cpu_s),
            ..Sample::default()
        };
        let mut sample = told_in(load, sample).distributed_in(LATENCIES_MAX, LATENCY, "s", timed.latencies_s);
        if load.writes {
            sample = sample.measured("sync", timed.sync_s, "s");
        }
        if let Some(target) = bench.wishes.target_bits_per_s {
            sample = sample.measured(TARGET, target as f64, "bit/s");
        }
        Ok(Some(sample))
    })
}

/// The largest request of which the data are a whole number.
fn fitting(data_bytes: u64) -> u64 {
    let is_whole = |request: &u64| data_bytes.is_multiple_of(*request);
    REQUESTS.into_iter().rev().find(is_whole).unwrap_or(REQUESTS[0])
}

/// What is left out, and why, where a file system refuses requests past the page cache; none of other errors.
fn refused(load: &Load, error: &std::io::Error) -> Option<(String, String)> {
    match error.kind() {
        std::io::ErrorKind::Unsupported if load.is_direct => {
            Some((NOT_PAST.to_owned(), format!("this file system has none: {error}")))
        }
        // Those of another size may be taken.
        std::io::ErrorKind::InvalidInput if load.is_direct => {
            let why = format!("this file system does not take them: {error}");
            Some((not_past(load.request_bytes), why))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_there_once() {
        let cases = cases(64 * MIB, 64 * MIB);
        assert_eq!(cases.len(), REQUESTS.len() * DEPTHS.len() * 2 * (2 + 2 + 1));
        assert_eq!(cases.len(), 150, "as the help of --time says");
        let mut seen = std::collections::HashSet::new();
        assert!(cases.iter().all(|case| seen.insert(format!("{case:?}"))));
    }

    #[test]
    fn what_is_read_is_as_large_as_what_was_asked_for() {
        assert_eq!([4 << 10, 68 << 10, 64 * MIB].map(fitting), [4 << 10, 4 << 10, 4 * MIB]);
    }

    /// Where blocks are of 64 KiB, smaller requests are refused, and larger ones are not.
    #[test]
    fn a_request_that_is_too_small_for_a_disk_does_not_make_a_file_system_that_takes_none() {
        use std::io::{Error, ErrorKind};
        let cases = cases(64 * MIB, 64 * MIB);
        let of = |is_direct: bool| cases.iter().find(|case| case.is_direct == is_direct).unwrap();
        let what = |is_direct: bool, kind: ErrorKind| {
            refused(of(is_direct), &Error::from(kind)).map(|(what, _)| what)
        };
        assert_eq!(what(true, ErrorKind::Unsupported).unwrap(), "requests past the page cache");
        assert_eq!(what(true, ErrorKind::InvalidInput).unwrap(), "requests of 4 KiB past the page cache");
        assert_eq!((what(true, ErrorKind::StorageFull), what(false, ErrorKind::InvalidInput)), (None, None));
    }

    /// 1 GB/s is the target: sixteen requests of 4 MiB are 67 ms of it.
    #[test]
    fn a_request_among_others_may_wait_for_them_as_long_as_they_take_at_the_target_rate() {
        let of = |request_bytes: u64, depth: f64| latency_s_max(request_bytes as f64, depth, 8e9);
        assert_eq!((of(4 << 10, 1.0), of(4 * MIB, 1.0)), (LATENCY_S_MAX, LATENCY_S_MAX));
        let waits_s = 15.0 * 4_194_304.0 / 1e9;
        assert!((of(4 * MIB, 16.0) - (LATENCY_S_MAX + waits_s)).abs() < 1e-9);
    }

    /// A disk that took less in the time that it had is not read where it has nothing: that would be memory's speed.
    #[test]
    fn only_what_is_there_is_read() {
        let there = 3 * MIB;
        let cases = cases(64 * MIB, there);
        let (reads, writes): (Vec<&Load>, Vec<&Load>) = cases.iter().partition(|case| !case.writes);
        assert!(!reads.is_empty());
        assert!(reads.iter().all(|case| case.bytes == there && case.request_bytes <= there));
        assert!(writes.iter().all(|case| case.bytes == 64 * MIB));
    }
}
