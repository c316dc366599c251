//! What it costs to account for time: `cargo bench -p thalweg-mover --bench accounts`.
//!
//! Each booking is measured in a loop; the share of a transfer follows from how many there are for a segment, or for a
//! small file, and from what these cost in CPU time in the best case: a segment as docs/performance.md has it of both
//! sides, encrypted and verified, pulled into `null:`; 25 µs for a small file at each side (docs/measurements.md, small
//! files). What is done once a second is measured by itself. It fails where any of the three is more than
//! [`SHARE_MAX`].
//!
//! All readings of clocks for a segment are more than those of bookings: whoever waits for a limit reads some too. What
//! all of them take is told and not judged ([`READINGS_A_SEGMENT`], counted by `cargo xtask instructions`).

use std::hint::black_box;
use std::time::{Duration, Instant};
use thalweg_mover::plan::SEGMENT_BYTES;
use thalweg_mover::stage::{Accounts, Clocks, READINGS_A_SEGMENT, Stage, Stopwatch};
use thalweg_sys::host;

/// Bookings of a segment that read both clocks: read, send; before a frame and behind it, of which one is booked as
/// receive; write.
const LAPS_A_SEGMENT: f64 = 5.0;
/// Of what only computes, by one clock: digest, verify.
const COMPUTED_A_SEGMENT: f64 = 2.0;
/// What a copy was measured to cost, and the row of it. In CPU-s/GB, and so in ns for a byte.
const MEASURED: (&str, &str) = (include_str!("../../../docs/performance.md"), "| pull into null: |");
/// Bookings of a small file: open and digest at one side, verify and create at the other; look and settle.
const QUICK_A_FILE: f64 = 6.0;
/// CPU time of both sides for a small file.
const FILE_CPU_NS: f64 = 50_000.0;
/// What accounting may cost, in percent.
const SHARE_MAX: f64 = 1.0;

fn main() {
    let accounts = Accounts::default();
    let mut watch = Stopwatch::start(&accounts);
    let lap = each(|| watch.lap(black_box(Stage::Read), SEGMENT_BYTES.into()));
    let quick = each(|| watch.quick(black_box(Stage::Open), 4096));
    let once = each_slow(|| {
        black_box((host::process_use().ok(), host::cpu_quota(), host::pressure("io"), host::pressure("cpu")));
        black_box(accounts.rows());
    });
    let clocks = each(|| {
        black_box(Clocks::read());
    });
    let share = |cost: f64, of: f64| cost / of * 100.0;
    let segment_cpu_ns = cpu_ns_a_byte() * f64::from(SEGMENT_BYTES);
    let of_segment = share(lap * LAPS_A_SEGMENT + quick * COMPUTED_A_SEGMENT, segment_cpu_ns);
    // Every other one is of the wall clock.
    let readings: f64 = READINGS_A_SEGMENT.iter().sum();
    let of_readings = share(clocks / 2.0 * readings, segment_cpu_ns);
    let of_file = share(quick * QUICK_A_FILE, FILE_CPU_NS);
    let of_second = share(once, 1e9);
    println!("lap with CPU clock   {lap:8.1} ns, {of_segment:.3} % of a segment");
    println!(
        "both clocks          {clocks:8.1} ns, {readings:.1} readings of one: {of_readings:.3} % of a segment"
    );
    println!("quick lap            {quick:8.1} ns, {of_file:.3} % of a small file");
    println!("once a second        {once:8.1} ns, {of_second:.4} % of a CPU");
    let most = of_segment.max(of_file).max(of_second);
    assert!(most <= SHARE_MAX, "accounting costs {most:.2} %, not at most {SHARE_MAX} %");
}

/// CPU time of both sides for a byte, in nanoseconds.
fn cpu_ns_a_byte() -> f64 {
    let (page, name) = MEASURED;
    let row = page.lines().find_map(|line| line.strip_prefix(name));
    let first = row.and_then(|row| row.split_whitespace().next()).and_then(|number| number.parse().ok());
    first.unwrap_or_else(|| panic!("docs/performance.md has no number in a row `{name}`"))
}

/// Nanoseconds of one, the best of several rounds: the others were disturbed.
fn each(work: impl FnMut()) -> f64 {
    best(work, 200_000)
}

fn each_slow(work: impl FnMut()) -> f64 {
    best(work, 200)
}

fn best(mut work: impl FnMut(), times: u32) -> f64 {
    let mut least = Duration::MAX;
    for _ in 0..7 {
        let began = Instant::now();
        (0..times).for_each(|_| work());
        least = least.min(began.elapsed());
    }
    least.as_nanos() as f64 / f64::from(times)
}
