//! `storage`: throughput and latency of a disk by size of request, depth, way, order and allocation, reading and
//! writing (004, its storage profiler; the storage rule of 000 section III-D: throughput above the target rate *and*
//! low latency, writes narrower than reads).

use super::{MIB, ON_THIS_MACHINE, Suite, Takes, Values, bytes, count, scaled, size};
use crate::bench::record::{PathKind, Sample};
use crate::bench::requests::Load;
use crate::bench::{Bench, Prepared, Wishes};
use thalweg_mover::failure::{Result, of_io};
use thalweg_sys::cpu_time::process_cpu;

pub const SUITE: Suite = Suite {
    name: "storage",
    asks: "what does a disk do, by request, depth, way and order, and how long does each request take? (000 section III-D, 004)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes {
        target: Values::One,
        seed: Values::No,
        program: Values::No,
        budget_bytes_min: REQUESTS[0],
        ..ON_THIS_MACHINE
    },
    prepare,
    run,
};

/// Names in samples that the storage rule goes by.
pub const TARGET: &str = "target_rate";
pub const LATENCY: &str = "request_latency";

/// 000 section III-D asks for low latency and has no figure; a disk that answers 99 of 100 requests within this time
/// keeps a burst of 1 Gbit/s in 1.25 MB of buffers.
pub const LATENCY_S_MAX: f64 = 0.01;

const REQUESTS: [u64; 4] = [64 << 10, 256 << 10, MIB, 4 * MIB];
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

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Ok(Prepared {
        path: PathKind::Disk,
        encryption: "none".to_owned(),
        verification: "none".to_owned(),
        changes: vec![scaled("data of a case", "some 100 GiB (004 section III)", {
            format!("{}, or what is moved in 3 s", size(SUITE.budget_bytes(wishes)))
        })],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let data_bytes = bench.budget_bytes();
    bench.workspace.needs(3 * data_bytes)?;
    let (read, written) = (bench.workspace.path("read"), bench.workspace.path("written"));
    let failed = |error: std::io::Error| of_io("ask the disk", &error);
    let fill = Load {
        writes: true,
        request_bytes: REQUESTS[0],
        depth: 1,
        is_direct: false,
        is_sequential: true,
        is_preallocated: true,
        bytes: data_bytes,
    };
    let there_bytes = fill.run(&read).map_err(failed)?.bytes;
    if there_bytes < data_bytes {
        let why = format!("the disk took {} MiB in the time of a case; these are read", there_bytes >> 20);
        bench.leave_out(&format!("reading {} MiB", data_bytes >> 20), &why)?;
    }
    bench.take_turns(cases(data_bytes, there_bytes), |bench, run, load| {
        // Caches are passed by or dropped, so the first request is as good as any.
        if run == 0 {
            return Ok(None);
        }
        bench.workspace.settle()?;
        let cpu = process_cpu();
        let timed = match load.run(if load.writes { &written } else { &read }) {
            Ok(timed) => timed,
            Err(error) if load.is_direct && is_refused(&error) => {
                bench.leave_out(
                    "requests past the page cache",
                    &format!("this file system has none: {error}"),
                )?;
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        let (verb, way) =
            (if load.writes { "write" } else { "read" }, if load.is_direct { "direct" } else { "cached" });
        let order = if load.is_sequential { "sequential" } else { "scattered" };
        let sample = Sample {
            series: format!("{verb}, {way}, {order}"),
            bytes: timed.bytes,
            files: 1,
            wall_s: timed.wall_s,
            cpu_s: Some((process_cpu() - cpu).as_secs_f64()),
            ..Sample::default()
        };
        let mut sample = sample
            .with("direction", verb.into())
            .with("way", way.into())
            .with("order", order.into())
            .with("request_size", bytes(load.request_bytes))
            .with("depth", count(load.depth))
            .distributed(LATENCY, "s", timed.latencies_s);
        if load.writes {
            let space = if load.is_preallocated { "reserved before" } else { "as it comes" };
            sample = sample.with("space", space.into()).measured("sync", timed.sync_s, "s");
        }
        if let Some(target) = bench.wishes.target_bits_per_s {
            sample = sample.measured(TARGET, target as f64, "bit/s");
        }
        Ok(Some(sample))
    })
}

fn is_refused(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::InvalidInput | std::io::ErrorKind::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_there_once() {
        let cases = cases(64 * MIB, 64 * MIB);
        assert_eq!(cases.len(), REQUESTS.len() * DEPTHS.len() * 2 * (2 + 2 + 1));
        let mut seen = std::collections::HashSet::new();
        assert!(cases.iter().all(|case| seen.insert(format!("{case:?}"))));
    }

    /// A disk that took less in the time of a case is not read where it has nothing: that would be memory's speed.
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
