//! `order`: strict, serial, loose, none over threads and sizes of requests, reading and writing, on simulated disks and
//! on the real one (004 sections II-A.3, IV-B and IV-C, Figs 3 and 4).
//!
//! All cases move as much, so that what a copy costs by itself weighs on each alike; and so much that every thread has
//! [`REQUESTS_EACH`] requests where there are fewest: threads that have one or two cannot get out of order.

use super::{
    Disk, MIB, ON_THIS_MACHINE, Planned, REAL, Suite, Takes, Values, bytes, count, of_copy, on_disks, scaled,
    size, words,
};
use crate::bench::record::{SIMULATED, Sample};
use crate::bench::{Bench, Prepared, Wishes};
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result};

pub const SUITE: Suite = Suite {
    name: "order",
    asks: "which order of requests, from how many threads, of what size? (004 Figs 3 and 4)",
    runs: 3,
    budget_bytes: REQUESTS_EACH * THREADS[5] as u64 * REQUESTS[2],
    takes: Takes { seed: Values::No, ..ON_THIS_MACHINE },
    prepare,
    needs: super::nothing,
    plan,
    run,
};

/// Requests that each thread makes at least, where an order is to show.
pub const REQUESTS_EACH: u64 = 8;

/// 004 section IV-D.1 has 4 and 16; the others show where an order begins to matter, and what is left with many.
const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// With larger ones the data of a case, and with them the suite, would take too long: about a quarter of an hour on a
/// disk of 500 MB/s.
const REQUESTS: [u64; 3] = [256 << 10, MIB / 2, MIB];

/// By side: what [`NOT_HERE`] says is not among those of the destination.
const ORDERS: [&[&str]; 2] = [&["strict", "serial", "loose", "none"], &["serial", "loose", "none"]];

/// What 004 has besides, and why it is not here.
const NOT_HERE: (&str, &str) = (
    "strict, writing (004 section IV-C)",
    "a destination writes what comes, and which chunk is next is the choice of the source: `cp` takes `--order strict` for \
     that alone",
);

/// One disk of 004's arrays (section III-A), and as many as an array has data disks there. Queue and host are those of
/// `sim:eonstor`: without them threads on one machine take and make their requests within microseconds of each other,
/// and none is as good as an order.
const ARRAY: &str = "sim:seek=8ms,rate=60MB,devices=7,stripe=64KiB,queue=4,host=1GB/s";

struct Case {
    disk: Disk,
    writes: bool,
    order: &'static str,
    threads: u32,
    request_bytes: u64,
}

impl Case {
    fn verb(&self) -> &'static str {
        if self.writes { "writing" } else { "reading" }
    }

    fn disk_name(&self) -> String {
        match self.disk {
            Disk::Real => REAL.to_owned(),
            Disk::Simulated => format!("{SIMULATED} array"),
        }
    }

    /// Its series without the order: what is left out together.
    fn what(&self) -> String {
        format!("{}, {}", self.verb(), self.disk_name())
    }

    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        Sample { series: format!("{}, {}", self.what(), self.order), ..sample }
            .with("direction", self.verb().into())
            .with("disk", self.disk_name().as_str().into())
            .with("order", self.order.into())
            .with("threads", count(self.threads))
            .with("request_size", bytes(self.request_bytes))
    }
}

fn cases(data_bytes: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for disk in [Disk::Simulated, Disk::Real] {
        for writes in [false, true] {
            for &order in ORDERS[usize::from(writes)] {
                for threads in THREADS {
                    let of = |request_bytes| Case { disk, writes, order, threads, request_bytes };
                    // One request alone has no order, and a file of one goes by way of the page cache.
                    cases
                        .extend(REQUESTS.iter().filter(|bytes| **bytes < data_bytes).map(|&bytes| of(bytes)));
                }
            }
        }
    }
    cases
}

fn plan(wishes: &Wishes) -> Vec<Planned> {
    let of = |case: &Case| Planned::of(case.told_in(Sample::default()), vec![case.what()]);
    cases(SUITE.budget_bytes(wishes)).iter().map(of).collect()
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    if SUITE.budget_bytes(wishes) <= REQUESTS[0] {
        let cause = format!("one request alone has no order: a --budget of more than {}", size(REQUESTS[0]));
        return Err(Failure::new(FailureKind::Usage, MEASURE, cause));
    }
    Ok(on_disks(vec![
        scaled("data", "200 GiB (004 section III)", size(SUITE.budget_bytes(wishes))),
        scaled("disks", "6 arrays of 7 + 1 disks (004 section III-A)", {
            format!("one simulated array ({ARRAY}), and the disk of --dir past the page cache")
        }),
        scaled("requests", "of 32 MiB (004 section IV-B)", REQUESTS.map(size).join(", ")),
        scaled(
            "requests of each thread",
            "400 and more (200 GiB, 16 threads)",
            requests_each(SUITE.budget_bytes(wishes)),
        ),
    ]))
}

/// How many each thread makes where they are fewest, in words.
fn requests_each(data_bytes: u64) -> String {
    let (threads, request_bytes) = (THREADS[THREADS.len() - 1], REQUESTS[REQUESTS.len() - 1]);
    let each = data_bytes / request_bytes / u64::from(threads);
    let least = format!("{each} of {} from {threads} threads, more elsewhere", size(request_bytes));
    match each >= REQUESTS_EACH {
        true => least,
        false => format!("{least}; orders cannot show where there are fewer than {REQUESTS_EACH}"),
    }
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let data_bytes = bench.budget_bytes();
    let (what, why) = NOT_HERE;
    bench.leave_out(what, why)?;
    bench.workspace.needs(3 * data_bytes)?;
    let source = bench.workspace.path("source");
    let make = words(&["cp", &format!("data:size={data_bytes}"), &source.display().to_string()]);
    bench.workspace.copy(None, None, &make)?;
    let file = source.join("d000000/f0000000").display().to_string();
    bench.take_turns(cases(data_bytes), |bench, run, case| {
        // A simulated disk has no cache that could be cold.
        if run == 0 && case.disk == Disk::Simulated {
            return Ok(None);
        }
        let side = if case.writes { "destination" } else { "source" };
        let what = case.what();
        if bench.is_left_out(&what) {
            return Ok(None);
        }
        let target = bench.workspace.path("copy");
        let array = format!("{ARRAY},size={data_bytes}");
        let (from, to) = match (case.disk, case.writes) {
            (Disk::Simulated, false) => (array, "null:".to_owned()),
            (Disk::Simulated, true) => (format!("data:size={data_bytes}"), array),
            (Disk::Real, false) => (file.clone(), "null:".to_owned()),
            (Disk::Real, true) => (format!("zero:{data_bytes}"), target.display().to_string()),
        };
        let mut line = words(&["cp", "--no-tune", "--io-depth", "1", "--streams"]);
        line.extend([case.threads.to_string(), "--request".into(), case.request_bytes.to_string()]);
        line.extend(["--chunk".into(), case.request_bytes.to_string()]);
        line.extend(["--order".into(), format!("{side}={}", case.order)]);
        if case.disk == Disk::Real {
            line.extend(["--direct".into(), format!("{side}=on")]);
        }
        line.extend([from, to]);
        bench.workspace.settle()?;
        let said = bench.workspace.said(None, None, &line)?;
        bench.workspace.remove(&target)?;
        if let Some(why) = said.missed_direct(side) {
            // That is the speed of memory.
            bench.leave_out(&what, why)?;
            return Ok(None);
        }
        Ok(Some(case.told_in(of_copy("", &said.copied, data_bytes, 1))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_each_thread_has_enough_requests_and_the_whole_takes_a_quarter_of_an_hour() {
        let fewest = REQUESTS
            .iter()
            .flat_map(|bytes| THREADS.map(|threads| SUITE.budget_bytes / bytes / u64::from(threads)));
        assert_eq!(fewest.min(), Some(REQUESTS_EACH));
        assert_eq!(requests_each(SUITE.budget_bytes), "8 of 1 MiB from 32 threads, more elsewhere");
        assert!(requests_each(SUITE.budget_bytes - 1).contains("7 of 1 MiB from 32 threads"));
        assert!(requests_each(SUITE.budget_bytes - 1).contains("cannot show"));
        // Each case once for each disk and round; the real disk has one more to warm up. The array is 7 disks of 60
        // MB/s, and slower where an order has it seek; a copy takes some 50 ms by itself.
        let cases = (ORDERS.concat().len() * THREADS.len() * REQUESTS.len()) as f64;
        let bytes = SUITE.budget_bytes as f64;
        let runs = f64::from(SUITE.runs);
        let real_s = cases * (runs + 1.0) * (bytes / 500e6 + 0.05);
        let simulated_s = cases * runs * (bytes / 420e6 + 0.05);
        assert!(real_s + simulated_s < 600.0, "{real_s} + {simulated_s}, and the seeks");
    }
}
