//! `order`: strict, serial, loose, none over threads and sizes of requests, reading and writing, on simulated disks and
//! on the real one (004 sections II-A.3, IV-B and IV-C, Figs 3 and 4).

use super::{MIB, Suite, bytes, count, of_copy, scaled, size, words};
use crate::bench::record::PathKind;
use crate::bench::{Bench, Prepared, Wishes};
use thalweg_mover::failure::Result;

pub const SUITE: Suite = Suite {
    name: "order",
    asks: "which order of requests, from how many threads, of what size? (004 Figs 3 and 4)",
    runs: 3,
    budget_bytes: 64 * MIB,
    prepare,
    run,
};

const THREADS: [u32; 4] = [1, 2, 4, 8];
const REQUESTS: [u64; 3] = [256 << 10, MIB, 4 * MIB];

/// At the destination data are written as they come, so strict is no order of it.
const ORDERS: [&[&str]; 2] = [&["strict", "serial", "loose", "none"], &["serial", "loose", "none"]];

/// One disk of 004's arrays (section III-A), and as many as an array has data disks there.
const ARRAY: &str = "sim:seek=8ms,rate=60MB,devices=7,stripe=64KiB";

#[derive(Clone, Copy, PartialEq)]
enum Disk {
    Simulated,
    Real,
}

struct Case {
    disk: Disk,
    writes: bool,
    order: &'static str,
    threads: u32,
    request_bytes: u64,
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Ok(Prepared {
        path: PathKind::Disk,
        encryption: "none: one machine".to_owned(),
        verification: "BLAKE3 of every segment, read and given on".to_owned(),
        changes: vec![
            scaled("data", "200 GiB (004 section III)", size(SUITE.budget_bytes(wishes))),
            scaled("disks", "6 arrays of 7 + 1 disks (004 section III-A)", {
                format!("one simulated array ({ARRAY}), and the disk of --dir past the page cache")
            }),
            scaled("requests", "to 32 MiB (004 Figs 3 and 4)", "256 KiB, 1 MiB and 4 MiB".to_owned()),
        ],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let data_bytes = bench.budget_bytes();
    bench.yard.needs(3 * data_bytes)?;
    let source = bench.yard.path("source");
    let make = words(&["cp", &format!("data:size={data_bytes}"), &source.display().to_string()]);
    bench.yard.copy(None, None, &make)?;
    let file = source.join("d000000/f0000000").display().to_string();
    let mut cases = Vec::new();
    for disk in [Disk::Simulated, Disk::Real] {
        for writes in [false, true] {
            for &order in ORDERS[usize::from(writes)] {
                for threads in THREADS {
                    let of = |request_bytes| Case { disk, writes, order, threads, request_bytes };
                    cases.extend(
                        REQUESTS.iter().filter(|bytes| **bytes <= data_bytes).map(|&bytes| of(bytes)),
                    );
                }
            }
        }
    }
    bench.take_turns(cases, |bench, run, case| {
        // A simulated disk has no cache that could be cold.
        if run == 0 && case.disk == Disk::Simulated {
            return Ok(None);
        }
        let target = bench.yard.path("copy");
        let array = format!("{ARRAY},size={data_bytes}");
        let (from, to) = match (case.disk, case.writes) {
            (Disk::Simulated, false) => (array, "null:".to_owned()),
            (Disk::Simulated, true) => (format!("data:size={data_bytes}"), array),
            (Disk::Real, false) => (file.clone(), "null:".to_owned()),
            (Disk::Real, true) => (format!("zero:{data_bytes}"), target.display().to_string()),
        };
        let side = if case.writes { "destination" } else { "source" };
        let mut line = words(&["cp", "--no-tune", "--io-depth", "1", "--streams"]);
        line.extend([case.threads.to_string(), "--request".into(), case.request_bytes.to_string()]);
        line.extend(["--chunk".into(), case.request_bytes.to_string()]);
        line.extend(["--order".into(), format!("{side}={}", case.order)]);
        if case.disk == Disk::Real {
            line.extend(["--direct".into(), format!("{side}=on")]);
        }
        line.extend([from, to]);
        bench.yard.settle()?;
        let copied = bench.yard.copy(None, None, &line)?;
        bench.yard.remove(&target)?;
        let disk = if case.disk == Disk::Real { "the disk of --dir" } else { "simulated array" };
        let verb = if case.writes { "writing" } else { "reading" };
        let sample = of_copy(&format!("{verb}, {disk}, {}", case.order), &copied, data_bytes, 1);
        Ok(Some(
            sample
                .with("direction", verb.into())
                .with("disk", disk.into())
                .with("order", case.order.into())
                .with("threads", count(case.threads))
                .with("request_size", bytes(case.request_bytes)),
        ))
    })
}
