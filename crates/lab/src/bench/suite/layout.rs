//! `layout`: reading by the place on the medium (002 sections V and VI-D, Table II), on simulated stripes that lie
//! anywhere and on a file in pieces on the real disk, whose places the kernel tells (FIEMAP).

use super::{
    Disk, MIB, ON_THIS_MACHINE, Planned, REAL, Suite, bytes, count, of_copy, on_disks, scaled, size, words,
};
use crate::bench::record::{SIMULATED, Sample};
use crate::bench::{Bench, Prepared, Wishes};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use thalweg_mover::endpoint::content::Content;
use thalweg_mover::failure::{Result, of_io};
use thalweg_sys::{Dir, extents};

pub const SUITE: Suite = Suite {
    name: "layout",
    asks: "what does reading by the place on the medium gain? (002 Table II)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: ON_THIS_MACHINE,
    prepare,
    needs: super::nothing,
    plan,
    run,
};

/// As `cp --order` has them, but for [`BY_DEVICE`].
const ORDERS: [&str; 5] = ["none", "loose", "serial", BY_DEVICE, "layout"];

/// The middle case of 002 Table II, by layout and not sorted: what is on which device is known, and not where on it.
const BY_DEVICE: &str = "by-device";

/// 002 section VI-D reads blocks of 4 MiB; here a stripe is a quarter of one, so that a small file has many.
const STRIPE_BYTES: u64 = MIB;
const DEVICES: u32 = 4;

/// Extents that are counted at most.
const EXTENTS_MAX: usize = 1 << 16;

struct Case {
    disk: Disk,
    order: &'static str,
}

impl Case {
    /// The sample with the case's name and parameters.
    fn told_in(&self, sample: Sample) -> Sample {
        let (series, devices) = match self.disk {
            Disk::Real => (REAL.to_owned(), 1),
            Disk::Simulated => (format!("{SIMULATED} devices"), DEVICES),
        };
        Sample { series, ..sample }
            .with("order", self.order.into())
            .with("devices", count(devices))
            .with("stripe", bytes(STRIPE_BYTES))
    }
}

/// On the real disk only where it tells in which pieces a file lies.
fn cases(has_pieces: bool) -> Vec<Case> {
    let mut cases: Vec<Case> = ORDERS.map(|order| Case { disk: Disk::Simulated, order }).into();
    if has_pieces {
        let of_one = ORDERS.into_iter().filter(|order| *order != BY_DEVICE);
        cases.extend(of_one.map(|order| Case { disk: Disk::Real, order }));
    }
    cases
}

fn plan(_: &Wishes) -> Vec<Planned> {
    let of = |case: &Case| {
        let left_out_as = if case.disk == Disk::Real { vec![REAL.to_owned()] } else { Vec::new() };
        Planned::of(case.told_in(Sample::default()), left_out_as)
    };
    cases(true).iter().map(of).collect()
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    Ok(on_disks(vec![
        scaled("data", "100 GB (002 Table II)", size(SUITE.budget_bytes(wishes))),
        scaled("storage", "GPFS on disk arrays", {
            format!(
                "{DEVICES} simulated devices with 8 ms to seek and 60 MB/s, stripes of {} anywhere; a file in \
                 pieces on the disk of --dir, past the page cache",
                size(STRIPE_BYTES)
            )
        }),
    ]))
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let data_bytes = (bench.budget_bytes() / STRIPE_BYTES).max(1) * STRIPE_BYTES;
    bench.workspace.needs(3 * data_bytes)?;
    let file = bench.workspace.path("pieces");
    make_in_pieces(&file, &bench.workspace.path("between"), data_bytes)?;
    bench.workspace.settle()?;
    let pieces = count_extents(&file);
    if let Err(why) = &pieces {
        bench.leave_out(REAL, &format!("it does not tell where files lie: {why}"))?;
    }
    if pieces.is_ok() {
        bench.leave_out(
            "by layout, not sorted, on the disk of --dir",
            "it is one device: without the places on it there is no layout to go by",
        )?;
    }
    bench.take_turns(cases(pieces.is_ok()), |bench, run, case| {
        if (run == 0 && case.disk == Disk::Simulated) || (case.disk == Disk::Real && bench.is_left_out(REAL)) {
            return Ok(None);
        }
        let (order, told) = if case.order == BY_DEVICE { ("layout", ",devices-only") } else { (case.order, "") };
        let array = format!(
            "sim:seek=8ms,rate=60MB,devices={DEVICES},stripe={STRIPE_BYTES},size={data_bytes},scattered,seed={}{told}",
            bench.wishes.seed()
        );
        let mut line = words(&["cp", "--no-tune", "--io-depth", "1", "--order"]);
        line.extend([format!("source={order}"), "--streams".into(), DEVICES.to_string()]);
        line.extend(["--chunk".into(), STRIPE_BYTES.to_string(), "--request".into(), STRIPE_BYTES.to_string()]);
        let from = match case.disk {
            Disk::Simulated => array,
            Disk::Real => {
                line.extend(words(&["--direct", "source=on"]));
                file.display().to_string()
            }
        };
        line.extend([from, "null:".to_owned()]);
        let said = bench.workspace.said(None, None, &line)?;
        if let Some(why) = said.missed_direct("source") {
            // That is the speed of memory.
            bench.leave_out(REAL, why)?;
            return Ok(None);
        }
        let mut sample = case.told_in(of_copy("", &said.copied, data_bytes, 1));
        if let (Disk::Real, Ok(pieces)) = (case.disk, &pieces) {
            sample = sample.measured("extents", *pieces as f64, "1");
        }
        Ok(Some(sample))
    })
}

/// Two files that grow in turns, from the back: the file system gives each of their pieces another place.
fn make_in_pieces(file: &Path, between: &Path, bytes: u64) -> Result<()> {
    let of = |error: std::io::Error| of_io("make a file in pieces", &error);
    let (file, between) = (File::create(file).map_err(of)?, File::create(between).map_err(of)?);
    let mut stripe = vec![0; STRIPE_BYTES as usize];
    for number in (0..bytes / STRIPE_BYTES).rev() {
        let offset = number * STRIPE_BYTES;
        Content::Noise.fill(0, offset, &mut stripe);
        for one in [&file, &between] {
            one.write_all_at(&stripe, offset).map_err(of)?;
            // Only what is synced gets its place now, not later in one run with the others.
            one.sync_data().map_err(of)?;
        }
    }
    Ok(())
}

fn count_extents(path: &Path) -> std::io::Result<usize> {
    let parent = path.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
    let file = Dir::open(parent)?.open_read(name.as_encoded_bytes())?;
    Ok(extents(&file, EXTENTS_MAX)?.len())
}
